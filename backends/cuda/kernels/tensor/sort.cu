// sort and topk along an axis. Elements become unsigned keys in the same order (NaN greatest), so that one routine
// sorts every dtype. Short rows are sorted in shared memory by one block each, long rows by radix sort.
#include "schema/ops/tensor/sort.h"

#include "backends/common/row_shape.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/radix_sort.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

// A tensor [outer, n, inner] as rows of n elements that are `inner` apart; row r is (r / inner, r % inner).
struct Rows {
  int64_t count = 1, n = 1, inner = 1;
  Divisor inner_size, n_size;
  bool small = true;
};

Rows rows_of(const Shape& shape, int64_t axis) {
  const RowShape all = row_shape(shape.sizes(), axis);
  Rows rows{all.outer * all.inner, all.n, all.inner};
  rows.inner_size = make_divisor(rows.inner);
  rows.n_size = make_divisor(rows.n);
  rows.small = is_small(rows.count * rows.n);
  return rows;
}

// Returns the index of element `i` of row `row` in [outer, n, inner].
__device__ int64_t position(const Rows& rows, int64_t row, int64_t i, int64_t n) {
  const FlatIndex at = divide(static_cast<uint64_t>(row), rows.inner_size, rows.small);
  return (static_cast<int64_t>(at.quotient) * n + i) * rows.inner + static_cast<int64_t>(at.remainder);
}

// --- keys

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Maps a float's bits to an unsigned number with the same order, in as many bits. -0 equals 0.
template <class Bits>
__device__ Bits ordered_bits(Bits bits, bool is_nan) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  if (is_nan) return static_cast<Bits>(~Bits(0));
  if (bits == kSign) bits = 0;
  return static_cast<Bits>(bits & kSign ? ~bits : bits | kSign);
}

template <class Bits, class T>
__device__ Bits raw_bits(T x) {
  union {
    T value;
    Bits bits;
  } both = {x};
  return both.bits;
}

template <class T>
__device__ Key<T> key_of(T x, bool descending) {
  using Unsigned = std::conditional_t<
      sizeof(T) == 8, uint64_t,
      std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
  Unsigned key;
  if constexpr (!std::is_integral_v<T>) {
    const wide_t<T> wide = widen(x);
    key = ordered_bits<Unsigned>(raw_bits<Unsigned>(x), wide != wide);
  } else if constexpr (std::is_signed_v<T>) {
    key = static_cast<Unsigned>(static_cast<Unsigned>(x) ^ (Unsigned(1) << (8 * sizeof(T) - 1)));
  } else {
    key = static_cast<Unsigned>(x);
  }
  return descending ? static_cast<Unsigned>(~key) : key;
}

template <class T>
struct Outputs {
  const T* x;
  T* values;
  int64_t* places;
  int64_t k;

  __device__ void write(const Rows& rows, int64_t row, int64_t i, uint32_t place) const {
    const int64_t to = position(rows, row, i, k);
    values[to] = x[position(rows, row, place, rows.n)];
    places[to] = place;
  }
};

// --- one block per row: a bitonic network (Batcher, 1968) over (key, place), which are all different

constexpr int kShared = 2048;  // most elements of a row

template <class K>
__device__ bool comes_before(K a, uint32_t a_place, K b, uint32_t b_place) {
  return a != b ? a < b : a_place < b_place;
}

// `size` is n rounded up to a power of two; elements beyond n sort last.
template <class T>
__global__ void sort_in_block(Rows rows, int size, bool descending, Outputs<T> out) {
  __shared__ Key<T> keys[kShared];
  __shared__ uint32_t places[kShared];
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x;
  for (int i = thread; i < size; i += threads) {
    keys[i] = i < rows.n ? key_of(out.x[position(rows, row, i, rows.n)], descending)
                         : static_cast<Key<T>>(~Key<T>(0));
    places[i] = static_cast<uint32_t>(i);
  }
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int stride = run / 2; stride > 0; stride /= 2) {
      for (int pair = thread; pair < size / 2; pair += threads) {
        const int a = 2 * (pair & ~(stride - 1)) | (pair & (stride - 1)), b = a + stride;
        const bool ascending = (a & run) == 0;
        if (comes_before(keys[b], places[b], keys[a], places[a]) != ascending) continue;
        const Key<T> key = keys[a];
        const uint32_t place = places[a];
        keys[a] = keys[b], places[a] = places[b];
        keys[b] = key, places[b] = place;
      }
      __syncthreads();
    }
  }
  for (int i = thread; i < out.k; i += threads) out.write(rows, row, i, places[i]);
}

template <class T>
void start_in_block(const KernelContext& c, const Rows& rows, bool descending, const Outputs<T>& out) {
  int size = 1;
  while (size < rows.n) size *= 2;
  const int threads = std::clamp(size / 2, 32, 512);
  start(c, sort_in_block<T>, rows.count, threads, 0, rows, size, descending, out);
}

// --- long rows

template <class T, class SortKey>
struct MakeKeys {
  Rows rows;
  bool descending;
  const T* x;
  SortKey* keys;

  __device__ void operator()(int64_t i) const {
    const FlatIndex at = divide(static_cast<uint64_t>(i), rows.n_size, rows.small);
    const auto row = static_cast<int64_t>(at.quotient), place = static_cast<int64_t>(at.remainder);
    keys[i] = row_key<SortKey>(row, key_of(x[position(rows, row, place, rows.n)], descending), 8 * sizeof(T));
  }
};

template <class T>
struct TakeFirst {
  Rows rows;
  Divisor k_size;
  bool small;
  const uint32_t* places;
  Outputs<T> out;

  __device__ void operator()(int64_t i) const {
    const FlatIndex at = divide(static_cast<uint64_t>(i), k_size, small);
    const auto row = static_cast<int64_t>(at.quotient), k = static_cast<int64_t>(at.remainder);
    out.write(rows, row, k, places[row * rows.n + k]);
  }
};

SortShape sort_shape(const Rows& rows, DType dtype) {
  return {.rows = rows.count, .n = rows.n, .key_bits = 8 * static_cast<int>(size_of(dtype))};
}

template <class T>
void start_radix(const KernelContext& c, const Rows& rows, bool descending, const Outputs<T>& out) {
  const SortShape shape = sort_shape(rows, c.input(0).dtype);
  const SortBuffers buffers = sort_buffers(shape, c.scratch);
  with_key<sizeof(T)>(shape, [&](auto key) {
    using SortKey = typename decltype(key)::type;
    for_each(c, rows.count * rows.n,
             MakeKeys<T, SortKey>{rows, descending, out.x, static_cast<SortKey*>(buffers.keys[0])});
  });
  const int at = radix_sort(c, shape, buffers);
  for_each(c, rows.count * out.k,
           TakeFirst<T>{rows, make_divisor(out.k), is_small(rows.count * out.k), buffers.places[at], out});
}

// --- both ops

template <class Op>
std::shared_ptr<const void> prepare_sort(const KernelQuery& query) {
  return std::make_shared<const Rows>(
      rows_of(query.inputs[0].shape, from_attributes<Op>(query.attributes).axis));
}

template <class Body>
void sort_rows(const KernelContext& c, int64_t k, const Body& body) {
  const auto& rows = c.prepared<Rows>();
  if (rows.count * rows.n == 0 || k == 0) return;
  dispatch_any(c.input(0).dtype == DType::boolean ? DType::u8 : c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>)
      body(rows, Outputs<T>{c.input(0).as<const T>(), c.output(0).as<T>(), c.output(1).as<int64_t>(), k});
  });
}

int64_t k_of(const KernelContext& c, const ops::Sort&) { return c.prepared<Rows>().n; }
int64_t k_of(const KernelContext&, const ops::TopK& op) { return op.k; }
bool is_descending(const ops::Sort& op) { return op.descending; }
bool is_descending(const ops::TopK& op) { return op.largest; }

template <class Op>
void run_in_block(const KernelContext& c) {
  const auto& op = c.attributes<Op>();
  sort_rows(c, k_of(c, op),
            [&](const Rows& rows, const auto& out) { start_in_block(c, rows, is_descending(op), out); });
}

template <class Op>
void run_radix(const KernelContext& c) {
  const auto& op = c.attributes<Op>();
  sort_rows(c, k_of(c, op),
            [&](const Rows& rows, const auto& out) { start_radix(c, rows, is_descending(op), out); });
}

template <class Op>
std::optional<std::string> is_short(const KernelQuery& query) {
  const Rows rows = rows_of(query.inputs[0].shape, from_attributes<Op>(query.attributes).axis);
  if (rows.n > kShared) return "takes rows of up to " + std::to_string(kShared) + " elements";
  if (rows.count > INT32_MAX) return "takes fewer than 2^31 rows";
  return std::nullopt;
}

template <class Op>
int64_t radix_scratch(const KernelQuery& query) {
  const Rows rows = rows_of(query.inputs[0].shape, from_attributes<Op>(query.attributes).axis);
  return sort_scratch_bytes(sort_shape(rows, query.inputs[0].dtype));
}

template <class Op>
constexpr KernelImpl kBlock = {
    .name = "block", .run = run_in_block<Op>, .can_run = is_short<Op>, .prepare = prepare_sort<Op>};
template <class Op>
constexpr KernelImpl kRadix = {
    .name = "radix", .run = run_radix<Op>, .scratch_bytes = radix_scratch<Op>, .prepare = prepare_sort<Op>};
constexpr OpKernel kKernels[] = {{"sort", kBlock<ops::Sort>},
                                 {"sort", kRadix<ops::Sort>},
                                 {"topk", kBlock<ops::TopK>},
                                 {"topk", kRadix<ops::TopK>}};

}  // namespace

std::span<const OpKernel> sort_kernels() { return kKernels; }

}  // namespace genesis::cuda
