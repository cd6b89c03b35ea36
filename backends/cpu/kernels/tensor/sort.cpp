// Sort and topk along an axis. Keys are mapped to unsigned integers with the order of the elements (NaN greatest), so that one
// routine sorts every dtype. Equal keys are ordered by their position, which makes the sort stable.
#include "schema/ops/tensor/sort.h"

#include <algorithm>
#include <bit>

#include "backends/common/row_shape.h"
#include "backends/cpu/parallel/parallel.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

struct Entry {
  uint64_t key;
  int64_t place;
  bool operator<(const Entry& other) const {
    return key != other.key ? key < other.key : place < other.place;
  }
};

template <class Bits, class T>
uint64_t float_key(T x, bool is_nan) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  if (is_nan) return ~uint64_t{0};
  Bits bits = std::bit_cast<Bits>(x);
  if (bits == kSign) bits = 0;  // -0 equals 0
  return bits & kSign ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
}

template <class T>
uint64_t key_of(T x) {
  if constexpr (std::is_same_v<T, double>)
    return float_key<uint64_t>(x, x != x);
  else if constexpr (!std::is_integral_v<T>)
    return float_key<uint32_t>(static_cast<float>(x), static_cast<float>(x) != static_cast<float>(x));
  else if constexpr (std::is_signed_v<T>)
    return static_cast<uint64_t>(static_cast<int64_t>(x)) ^ (uint64_t{1} << 63);
  else
    return static_cast<uint64_t>(x);
}

// Writes one row to `entries`, the first `k` of them in order. Descending order is the ascending order of the complement.
template <class T>
void order_row(const T* x, int64_t n, int64_t stride, int64_t k, bool descending, Entry* entries) {
  const uint64_t flip = descending ? ~uint64_t{0} : 0;
  for (int64_t i = 0; i < n; ++i) entries[i] = {key_of(x[i * stride]) ^ flip, i};
  if (k < n / 8)
    std::partial_sort(entries, entries + k, entries + n);
  else
    std::sort(entries, entries + n);
}

// Rows are sorted by at most this many tasks, each with its own range of the scratch memory.
constexpr int64_t kMaxTasks = 64;

void sort_rows(const KernelContext& c, RowShape rows, int64_t k, bool descending) {
  const int64_t count = rows.outer * rows.inner, tasks = std::min(count, kMaxTasks);
  if (count * rows.n == 0) return;
  dispatch(c.input(0).dtype == DType::boolean ? DType::u8 : c.input(0).dtype, [&]<class T>(TypeTag<T>) {
    const auto run_task = [&](int64_t s) {
      Entry* entries = reinterpret_cast<Entry*>(c.scratch) + s * rows.n;
      for (int64_t row = count * s / tasks; row < count * (s + 1) / tasks; ++row) {
        const int64_t o = row / rows.inner, j = row % rows.inner;
        const T* x = c.input(0).as<T>() + o * rows.n * rows.inner + j;
        order_row(x, rows.n, rows.inner, k, descending, entries);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t at = (o * k + i) * rows.inner + j;
          c.output(0).as<T>()[at] = x[entries[i].place * rows.inner];
          c.output(1).as<int64_t>()[at] = entries[i].place;
        }
      }
    };
    if (count * rows.n < 1024)
      for (int64_t s = 0; s < tasks; ++s) run_task(s);
    else
      parallel_chunks(tasks, run_task);
  });
}

int64_t scratch_for(RowShape rows) {
  const CheckedSize count = CheckedSize(rows.outer) * rows.inner;
  return (std::min(count, CheckedSize(kMaxTasks)) * rows.n * sizeof(Entry)).value();
}

int64_t sort_scratch(const KernelQuery& query) {
  return scratch_for(
      row_shape(query.inputs[0].shape.sizes(), from_attributes<ops::Sort>(query.attributes).axis));
}

int64_t topk_scratch(const KernelQuery& query) {
  return scratch_for(
      row_shape(query.inputs[0].shape.sizes(), from_attributes<ops::TopK>(query.attributes).axis));
}

template <class Op>
std::shared_ptr<const void> prepare_sort(const KernelQuery& query) {
  const auto op = from_attributes<Op>(query.attributes);
  return std::make_shared<const RowShape>(row_shape(query.inputs[0].shape.sizes(), op.axis));
}

void run_sort(const KernelContext& c) {
  const auto& rows = c.prepared<RowShape>();
  sort_rows(c, rows, rows.n, c.attributes<ops::Sort>().descending);
}

void run_topk(const KernelContext& c) {
  const auto& op = c.attributes<ops::TopK>();
  sort_rows(c, c.prepared<RowShape>(), op.k, op.largest);
}

constexpr OpKernel kKernels[] = {
    {"sort",
     {.name = "rows", .run = run_sort, .scratch_bytes = sort_scratch, .prepare = prepare_sort<ops::Sort>}},
    {"topk",
     {.name = "rows", .run = run_topk, .scratch_bytes = topk_scratch, .prepare = prepare_sort<ops::TopK>}}};

}  // namespace

std::span<const OpKernel> sort_kernels() { return kKernels; }

}  // namespace genesis::cpu
