// grouped_matmul and its gradient in bf16 on Hopper chips, by the tiles of grouped_product.h. On other chips, and if a buffer does
// not start at a multiple of 16 bytes, tiles without tensor cores run.
#include "schema/ops/nn/grouped_matmul.h"

#include "backends/cuda/device/row_groups.h"
#include "backends/cuda/device/warp_scan.h"
#include "backends/cuda/hopper/grouped/grouped_product.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

using hopper::kTileColumns;
using hopper::kTileRows;

constexpr int kListThreads = 1024;
constexpr int64_t kListHead = 16;  // bytes before the tiles: their number

struct Prepared {
  bool has_code = false;
};

int64_t last_size(const TensorType& type) { return type.shape[type.shape.rank() - 1].value(); }
int64_t row_count(const TensorView& x) { return x.dim(-1) == 0 ? 0 : x.numel() / x.dim(-1); }

// Lists the tiles of rows of all groups in the order of groups, which lets tiles that run at the same time share weights.
__device__ void list_tiles(const Groups& groups, int* count, int4* tiles) {
  int before = 0;
  for (int base = 0; base < groups.count; base += kListThreads) {
    const int g = base + static_cast<int>(threadIdx.x);
    const int first = g < groups.count ? static_cast<int>(groups.first(g)) : 0,
              end = g < groups.count ? static_cast<int>(groups.end(g)) : 0;
    const BlockScan<int> scan = block_scan((end - first + kTileRows - 1) / kTileRows);
    int4* to = tiles + before + scan.before;
    for (int row = first; row < end; row += kTileRows) *to++ = {g, row, end, 0};
    before += scan.total;
  }
  if (threadIdx.x == 0) *count = before;
}

__global__ void __launch_bounds__(kListThreads)
    prepare_groups(Groups groups, int64_t n, __nv_bfloat16* y, int* count, int4* tiles, FaultReport fault) {
  if (blockIdx.x == 0 && tiles) list_tiles(groups, count, tiles);
  clear_other_rows(groups, n, y, fault);
}

// TMA needs rows of a multiple of 16 bytes.
bool fits_tiles(DType dtype, int64_t rows, int64_t n, int64_t k) {
  constexpr int64_t kMax = int64_t{1} << 29;
  return dtype == DType::bf16 && rows > 0 && n > 0 && k > 0 && n % 8 == 0 && k % 8 == 0 && rows < kMax &&
         n < kMax && k < kMax;
}

constexpr const char* kWhyNot = "not bf16, or sizes that are no multiples of 8";

std::optional<std::string> decline_rows(const KernelQuery& query) {
  if (from_attributes<ops::GroupedMatmul>(query.attributes).is_quantized()) return "quantized weights";
  const int64_t k = last_size(query.inputs[0]);
  if (!fits_tiles(query.outputs[0].dtype, k == 0 ? 0 : query.inputs[0].numel() / k,
                  last_size(query.outputs[0]), k))
    return kWhyNot;
  return std::nullopt;
}

std::optional<std::string> decline_sums(const KernelQuery& query) {
  const int64_t n = last_size(query.inputs[0]);
  if (!fits_tiles(query.outputs[0].dtype, n == 0 ? 0 : query.inputs[0].numel() / n, n,
                  last_size(query.inputs[1])))
    return kWhyNot;
  return std::nullopt;
}

int64_t list_bytes(const KernelQuery& query) {
  const int64_t rows = query.inputs[0].numel() / last_size(query.inputs[0]);
  const int64_t tiles = rows / kTileRows + query.inputs[1].shape[0].value();
  return kListHead + tiles * static_cast<int64_t>(sizeof(int4));
}

template <class Problem>
bool has_code() {
  return has_hopper_kernel(reinterpret_cast<const void*>(hopper::grouped_kernel<Problem>),
                           hopper::GroupedMemory<Problem::kRing>::kBytes);
}

// Calls body(the type of the problem) for a product of these weights with sums of `depth` terms.
template <class Body>
auto with_rows(bool transposed, int64_t depth, const Body& body) {
  if (depth >= hopper::kLongSum)
    return transposed ? body(hopper::RowsOfGroups<false, 4>{}) : body(hopper::RowsOfGroups<true, 4>{});
  return transposed ? body(hopper::RowsOfGroups<false, 3>{}) : body(hopper::RowsOfGroups<true, 3>{});
}

std::shared_ptr<const void> prepare_rows(const KernelQuery& query) {
  const bool transposed = from_attributes<ops::GroupedMatmul>(query.attributes).transpose_weights;
  return std::make_shared<Prepared>(
      Prepared{with_rows(transposed, last_size(query.inputs[0]), []<class P>(P) { return has_code<P>(); })});
}

std::shared_ptr<const void> prepare_sums(const KernelQuery&) {
  return std::make_shared<Prepared>(Prepared{has_code<hopper::SumsOfGroups>()});
}

// Starts one block per multiprocessor, behind the kernel that this node has started before.
template <class Problem>
void start_tiles(const KernelContext& c, const CUtensorMap& a, const CUtensorMap& b, const Problem& problem) {
  start_with_pdl(behind_own_kernel(c), hopper::grouped_kernel<Problem>,
                 static_cast<unsigned>(launch_of(c).multiprocessors), hopper::kGroupedThreads,
                 hopper::GroupedMemory<Problem::kRing>::kBytes, a, b, problem,
                 c.output().as<__nv_bfloat16>());
}

bool start_rows(const KernelContext& c) {
  const TensorView &x = c.input(0), &weights = c.input(1), &y = c.output();
  const int64_t n = y.dim(-1), k = x.dim(-1), rows = row_count(x), groups = weights.dim(0);
  const bool transposed = c.attributes<ops::GroupedMatmul>().transpose_weights;
  CUtensorMap a, b;
  const HeadsInBoxes matrices{.data = weights.data,
                              .batch = 1,
                              .heads = groups,
                              .rows = transposed ? n : k,
                              .batch_step = groups * n * k,
                              .head_step = n * k,
                              .row_step = transposed ? k : n,
                              .box_rows = transposed ? kTileColumns : hopper::kDepth,
                              .size = transposed ? k : n};
  if (!make_tensor_map({x.data, rows, k, kTileRows}, a) || !make_heads_map(matrices, b)) return false;
  auto* count = reinterpret_cast<int*>(c.scratch);
  auto* tiles = reinterpret_cast<int4*>(c.scratch + kListHead);
  const Groups list = groups_of(c.input(2), rows);
  start(c, prepare_groups, 16, kListThreads, 0, list, n, y.as<__nv_bfloat16>(), count, tiles,
        launch_of(c).fault);
  const hopper::GroupSizes sizes{static_cast<int>(n), static_cast<int>(k),
                                 static_cast<int>(blocks_for(n, kTileColumns))};
  with_rows(transposed, k, [&](auto problem) {
    problem.sizes = sizes;
    problem.list = {count, tiles};
    start_tiles(c, a, b, problem);
  });
  return true;
}

bool start_sums(const KernelContext& c) {
  const TensorView& y = c.output();
  const int64_t groups = y.dim(0), n = y.dim(1), k = y.dim(2), rows = row_count(c.input(0));
  CUtensorMap a, b;
  if (!make_tensor_map({c.input(0).data, rows, n, hopper::kDepth}, a) ||
      !make_tensor_map({c.input(1).data, rows, k, hopper::kDepth}, b))
    return false;
  start(c, prepare_groups, 1, kListThreads, 0, groups_of(c.input(2), rows), 0,
        static_cast<__nv_bfloat16*>(nullptr), static_cast<int*>(nullptr), static_cast<int4*>(nullptr),
        launch_of(c).fault);
  start_tiles(c, a, b,
              hopper::SumsOfGroups{{static_cast<int>(k), 0, static_cast<int>(blocks_for(k, kTileColumns))},
                                   c.input(2).as<const int64_t>(),
                                   static_cast<int>(groups),
                                   static_cast<int>(rows),
                                   static_cast<int>(n),
                                   static_cast<int>(blocks_for(n, kTileRows))});
  return true;
}

void run_rows(const KernelContext& c) {
  if (!c.prepared<Prepared>().has_code || !aligned_to_packs(c) || !start_rows(c)) run_grouped_tiles(c);
}

void run_sums(const KernelContext& c) {
  if (!c.prepared<Prepared>().has_code || !aligned_to_packs(c) || !start_sums(c))
    run_grouped_gradient_tiles(c);
}

}  // namespace

KernelImpl grouped_rows_implementation() {
  return {.name = "tensor_core_tiles",
          .run = run_rows,
          .can_run = decline_rows,
          .scratch_bytes = list_bytes,
          .prepare = prepare_rows,
          .why_not_here = why_no_hopper_here};
}

KernelImpl grouped_sums_implementation() {
  return {.name = "tensor_core_tiles",
          .run = run_sums,
          .can_run = decline_sums,
          .prepare = prepare_sums,
          .why_not_here = why_no_hopper_here};
}

}  // namespace genesis::cuda
