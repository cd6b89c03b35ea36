// Slices along an axis by a 1-d index. index_select copies them with up to 16 bytes per thread. index_add sums the
// slices with one destination in the order of the index, with a column of up to 16 bytes per thread.
#include "backends/common/row_shape.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/ordered_writes.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/moves/moves.h"
#include "schema/ops/tensor/index.h"

namespace genesis::cuda {
namespace {

// Splits the flat index of a pack of [outer, n, inner].
struct Packs {
  Divisor inner, n;
  bool small;
  int64_t packs, rows;
};

Packs packs_of(const RowShape& shape, int64_t n, int64_t inner_packs) {
  const int64_t packs = shape.outer * n * inner_packs;
  return {make_divisor(inner_packs), make_divisor(n), is_small(packs), packs, shape.n};
}

// Computes y[o, k] = x[o, index[k]], or zeros if the index is out of range.
template <class Item, class I>
__global__ void __launch_bounds__(kThreads)
    select_rows(Packs packs, const Item* x, const I* index, Item* y, FaultReport fault) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= packs.packs) return;
  const FlatIndex at = divide(static_cast<uint64_t>(i), packs.inner, packs.small);
  const FlatIndex row = divide(at.quotient, packs.n, packs.small);
  const auto k = static_cast<int64_t>(index[row.remainder]);
  const bool good = k >= 0 && k < packs.rows;
  if (!good && at.remainder == 0) fault(k, packs.rows);
  const int64_t from = (static_cast<int64_t>(row.quotient) * packs.rows + k) * packs.inner.size +
                       static_cast<int64_t>(at.remainder);
  y[i] = good ? x[from] : Item{};
}

template <class Item>
void start_select(const KernelContext& c, const RowShape& shape, int64_t inner_bytes) {
  const Packs packs = packs_of(shape, c.input(1).numel(), inner_bytes / static_cast<int64_t>(sizeof(Item)));
  dispatch_index(c.input(1).dtype, [&](auto tag) {
    using I = typename decltype(tag)::type;
    start(c, select_rows<Item, I>, blocks_for(packs.packs, kThreads), kThreads, 0, packs,
          c.input(0).as<const Item>(), c.input(1).as<const I>(), c.output().as<Item>(), launch_of(c).fault);
  });
}

void run_index_select(const KernelContext& c) {
  const RowShape shape = row_shape(c.input(0).sizes(), c.attributes<ops::IndexSelect>().axis);
  const int64_t bytes = shape.inner * static_cast<int64_t>(size_of(c.input(0).dtype));
  const uint64_t addresses = reinterpret_cast<uintptr_t>(c.input(0).data) |
                             reinterpret_cast<uintptr_t>(c.output().data) | static_cast<uint64_t>(bytes);
  if (addresses % 16 == 0) return start_select<ulonglong2>(c, shape, bytes);
  if (addresses % 8 == 0) return start_select<uint64_t>(c, shape, bytes);
  if (addresses % 4 == 0) return start_select<uint32_t>(c, shape, bytes);
  if (addresses % 2 == 0) return start_select<uint16_t>(c, shape, bytes);
  start_select<uint8_t>(c, shape, bytes);
}

template <class Key, class I>
struct FindRows {
  OwnIndices own;
  const I* index;
  Key* keys;
  FaultReport fault;

  __device__ void operator()(int64_t i) const {
    const auto named = static_cast<int64_t>(index[i]);
    const int64_t row = own.place_of(named);
    if (!own.exists(named)) fault(named, own.all);
    keys[i] = static_cast<Key>(row >= 0 ? row : own.count);
  }
};

// Adds to y[o, row] all source[o, k] whose index is `row`. Each thread has a sorted position; threads whose position
// does not begin a run have nothing to do. A sum of bools is whether any is true: the count is narrowed at the end.
template <class T, int N, class Key>
__global__ void __launch_bounds__(kThreads) add_rows(Packs packs, const Key* keys, const uint32_t* positions,
                                                     const Pack<T, N>* source, Pack<T, N>* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= packs.packs) return;
  const FlatIndex at = divide(static_cast<uint64_t>(i), packs.inner, packs.small);
  const FlatIndex row = divide(at.quotient, packs.n, packs.small);
  const auto first = static_cast<int64_t>(row.remainder), outer = static_cast<int64_t>(row.quotient);
  const Key key = keys[first];
  if (static_cast<int64_t>(key) == packs.rows || !starts_run(keys, first)) return;
  const int64_t end = end_of_run(keys, first, packs.n.size), column = static_cast<int64_t>(at.remainder);
  const Pack<T, N>* from = source + outer * packs.n.size * packs.inner.size + column;
  Pack<T, N>& to = y[(outer * packs.rows + static_cast<int64_t>(key)) * packs.inner.size + column];
  const Pack<T, N> old = to;
  wide_t<T> sums[N];
#pragma unroll
  for (int k = 0; k < N; ++k) sums[k] = widen(old.at[k]);
#pragma unroll 4
  for (int64_t p = first; p < end; ++p) {
    const Pack<T, N> more = from[int64_t{positions[p]} * packs.inner.size];
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] += widen(more.at[k]);
  }
  Pack<T, N> sum;
#pragma unroll
  for (int k = 0; k < N; ++k) sum.at[k] = narrow<T>(sums[k]);
  to = sum;
}

template <class T, class Key>
void add_in_order(const KernelContext& c, const RowShape& shape, const SortShape& sort) {
  const SortBuffers buffers = sort_buffers(sort, c.scratch);
  const OwnIndices own = c.attributes<ops::IndexAdd>().part.of(shape.n);
  dispatch_index(c.input(1).dtype, [&](auto tag) {
    using I = typename decltype(tag)::type;
    for_each(c, sort.n,
             FindRows<Key, I>{own, c.input(1).as<const I>(), static_cast<Key*>(buffers.keys[0]),
                              launch_of(c).fault});
  });
  const int at = radix_sort(c, sort, buffers);
  with_packs<T>(c, shape.inner, [&](auto size) {
    using P = Pack<T, size()>;
    const Packs packs = packs_of(shape, sort.n, shape.inner / size());
    start(c, add_rows<T, size(), Key>, blocks_for(packs.packs, kThreads), kThreads, 0, packs,
          static_cast<const Key*>(buffers.keys[at]), buffers.places[at], c.input(2).as<const P>(),
          c.output().as<P>());
  });
}

void run_index_add(const KernelContext& c) {
  copy_whole(c, c.output(), c.input(0));
  const RowShape shape = row_shape(c.input(0).sizes(), c.attributes<ops::IndexAdd>().axis);
  const SortShape sort = writes_shape(c.input(1).numel(), shape.n);
  dispatch_any(c.output().dtype,
               [&](auto tag) { add_in_order<typename decltype(tag)::type, uint32_t>(c, shape, sort); });
}

std::optional<std::string> can_add(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  const int axis = normalize_axis(from_attributes<ops::IndexAdd>(query.attributes).axis, x.rank());
  if (x[axis].value() >= INT64_C(0xffffffff)) return "takes axes of fewer than 2^32 elements";
  return std::nullopt;
}

int64_t add_scratch(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  const int axis = normalize_axis(from_attributes<ops::IndexAdd>(query.attributes).axis, x.rank());
  return sort_scratch_bytes(writes_shape(query.inputs[1].numel(), x[axis].value()));
}

constexpr OpKernel kKernels[] = {
    {"index_select", {.name = "rows", .run = run_index_select}},
    {"index_add",
     {.name = "sorted_rows", .run = run_index_add, .can_run = can_add, .scratch_bytes = add_scratch}}};

}  // namespace

std::span<const OpKernel> index_rows_kernels() { return kKernels; }

}  // namespace genesis::cuda
