#include "backends/cuda/codegen/scan_source.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/fused_prelude.h"
#include "backends/cuda/codegen/source_types.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace {

constexpr int64_t kShortRow = 1024;  // most elements of a row that one warp scans
constexpr int kRowThreads = 512;
constexpr int64_t kBlocksEach = 4;    // per multiprocessor
constexpr int64_t kMinPiece = 16384;  // fewest elements that are worth a block of their own

int64_t ceil_div(int64_t n, int64_t size) { return (n + size - 1) / size; }

}  // namespace

int64_t ScanPlan::blocks() const {
  if (outer * count * inner == 0) return 0;
  return inner > 1 ? ceil_div(outer * inner, threads) : ceil_div(outer, threads / lanes) * pieces;
}

ScanPlan plan_scan(const TensorType& x, int64_t axis) {
  ScanPlan plan;
  const int rank = x.shape.rank();
  for (int i = 0; i < rank; ++i) {
    int64_t& size = i < axis ? plan.outer : i == axis ? plan.count : plan.inner;
    size *= x.shape[i].value();
  }
  plan.piece = std::max<int64_t>(1, plan.count);
  if (plan.inner > 1 || plan.count <= kShortRow) return plan;
  plan.lanes = plan.threads = kRowThreads;
  const int64_t wanted =
      std::min(ceil_div(kBlocksEach * planned_chip().multiprocessors, std::max<int64_t>(1, plan.outer)),
               plan.count / kMinPiece);
  plan.piece = ceil_div(plan.count, std::max<int64_t>(1, wanted));
  plan.pieces = ceil_div(plan.count, plan.piece);
  return plan;
}

std::string scan_source(const ScanPlan& plan, DType in, DType out, bool reverse) {
  std::string text = kFusedPrelude;
  text += "\nnamespace genesis_device {\n\n";
  text +=
      fmt::format("using In = {};\nusing Out = {};\nusing Lane = {};\nusing Total = {};\n", memory_type(in),
                  memory_type(out), lane_type(out), is_float(out) ? "double" : "Integer");
  text += fmt::format("constexpr int64 kCount = {}, kInner = {}, kPieces = {}, kPiece = {};\n", plan.count,
                      plan.inner, plan.pieces, plan.piece);
  text += fmt::format("constexpr int kThreads = {}, kLanes = {};\nconstexpr bool kReverse = {};\n",
                      plan.threads, plan.lanes, reverse);
  text += "\n}  // namespace genesis_device\n";
  text += kScanKit;
  text += "\nnamespace genesis_device {\n\n";
  const auto add_kernel = [&](std::string_view name, std::string_view body) {
    text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(kThreads) {}(const Buffers b, const int64 n) {{\n  "
        "{}(b, "
        "n);\n}}\n",
        name, body);
  };
  if (plan.pieces > 1) add_kernel("totals", "sum_pieces");
  add_kernel("scan", plan.inner > 1 ? "scan_columns" : "scan_rows");
  return text + "\n}  // namespace genesis_device\n";
}

}  // namespace genesis::cuda
