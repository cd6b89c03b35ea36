#include "backends/cuda/codegen/reduce_plan.h"

#include <algorithm>

#include "backends/cuda/runtime/chips.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

constexpr int kWidestRow = 512;  // most threads that share a row
constexpr int kColumnThreads = 512;
constexpr int kDeepest = 16;    // most threads of a block that share a column, unless there are few columns
constexpr int kWidestPack = 8;  // most columns of one thread
// Threads and blocks per multiprocessor that keep the chip's memory busy. Blocks for rows have 512 threads; those for columns run
// all at once.
constexpr int64_t kThreadsEach = 1024, kBlocksEach = 4, kColumnBlocksEach = 2;
constexpr int64_t kPartialBytes = 24;  // size of the largest accumulator

int64_t power_of_two_over(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

int64_t ceil_div(int64_t n, int64_t size) { return (n + size - 1) / size; }

struct Axis {
  int64_t size, stride;
  bool reduced;
};

std::vector<Axis> merged_axes(const Shape& shape, const std::vector<int>& axes) {
  std::vector<Axis> merged;  // innermost first
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int64_t size = shape[i].value();
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (size != 1) {
      if (!merged.empty() && merged.back().reduced == reduced)
        merged.back().size *= size;
      else
        merged.push_back({size, stride, reduced});
    }
    stride *= size;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

void cut(ReducePlan& plan, int64_t pieces, int64_t granule) {
  plan.piece = std::max<int64_t>(
      granule, ceil_div(ceil_div(plan.count, std::max<int64_t>(1, pieces)), granule) * granule);
  plan.pieces = std::max<int64_t>(1, ceil_div(plan.count, plan.piece));
}

void spread_rows(ReducePlan& plan, int64_t width) {
  const int64_t run = plan.reduced.empty() ? 1 : plan.reduced.back().size;  // contiguous elements
  plan.pack = static_cast<int>(width);
  while (run % plan.pack != 0) plan.pack /= 2;
  const int64_t packs = plan.count / plan.pack;
  int64_t lanes = std::min<int64_t>(32, power_of_two_over(packs));
  const int64_t chip = planned_chip().multiprocessors;
  const auto wants_more = [&] {
    return packs > 64 * lanes || (packs > 4 * lanes && plan.outer * lanes < kThreadsEach * chip);
  };
  if (lanes == 32)
    while (lanes < kWidestRow && wants_more()) lanes *= 2;
  plan.lanes = static_cast<int>(lanes);
  plan.threads = lanes <= 32 ? 256 : plan.lanes;
  const int64_t wanted =
      lanes < kWidestRow ? 1 : ceil_div(kBlocksEach * chip, std::max<int64_t>(1, plan.outer));
  cut(plan, plan.outer * 2 > kBlocksEach * chip ? 1 : std::min(wanted, packs / (8 * lanes)), plan.pack);
}

void spread_columns(ReducePlan& plan, int64_t width) {
  plan.pack = static_cast<int>(std::min<int64_t>(width, kWidestPack));
  while (plan.inner % plan.pack != 0) plan.pack /= 2;
  const int64_t depth = power_of_two_over(plan.count),
                across = power_of_two_over(ceil_div(plan.inner, plan.pack));
  const int64_t lanes = std::min(across, kColumnThreads / std::min<int64_t>(depth, kDeepest));
  const int64_t down = std::min(depth, kColumnThreads / lanes);
  plan.lanes = static_cast<int>(lanes);
  plan.threads = static_cast<int>(lanes * down);
  const int64_t blocks = std::max<int64_t>(1, plan.outer * ceil_div(plan.inner, lanes * plan.pack));
  cut(plan,
      std::min(std::max<int64_t>(1, kColumnBlocksEach * planned_chip().multiprocessors / blocks),
               plan.count / (8 * down)),
      1);
}

}  // namespace

int64_t ReducePlan::blocks(int pack_width) const {
  if (results() == 0) return 0;
  if (inner > 1) return outer * pieces * ceil_div(inner, int64_t{lanes} * pack_width);
  return pieces > 1 ? outer * pieces : ceil_div(outer, threads / lanes);
}

int64_t ReducePlan::scratch_bytes() const {
  return pieces == 1 ? 0 : (CheckedSize(results()) * pieces * kPartialBytes).value();
}

ReducePlan plan_reduce(const TensorType& x, const std::vector<int>& axes) {
  ReducePlan plan;
  const std::vector<Axis> merged = merged_axes(x.shape, axes);
  for (const Axis& axis : merged) {
    (axis.reduced ? plan.reduced : plan.kept).push_back({axis.size, axis.stride});
    (axis.reduced ? plan.count : plan.outer) *= axis.size;
  }
  const bool columns = !plan.reduced.empty() && !merged.back().reduced && merged.back().size > 0;
  if (columns) {
    plan.inner = plan.kept.back().size;
    plan.outer /= plan.inner;
    plan.kept.pop_back();
  }
  const auto width = static_cast<int64_t>(16 / size_of(x.dtype));
  if (columns)
    spread_columns(plan, width);
  else
    spread_rows(plan, width);
  return plan;
}

}  // namespace genesis::cuda
