#include "backends/cuda/codegen/reduce_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/fused_prelude.h"
#include "backends/cuda/codegen/source_types.h"

namespace genesis::cuda {
namespace {

// Writes a function  int64 name(int64 at):  the offset in elements of the element with flat index `at` in these axes.
std::string place_function(std::string_view name, const std::vector<StridedAxis>& axes, int64_t numbers) {
  const std::string_view index = numbers < (int64_t{1} << 31) ? "unsigned" : "int64";
  std::string body = fmt::format("  const {} q{} = static_cast<{}>(at);\n", index, axes.size(), index), sum;
  for (size_t a = axes.size(); a-- > 0;) {
    const std::string_view plus = sum.empty() ? "" : " + ";
    if (a == 0) {
      sum += fmt::format("{}int64(q1) * {}", plus, axes[a].stride);
    } else {
      body += fmt::format("  const {} q{} = q{} / {};\n", index, a, a + 1, axes[a].size);
      sum += fmt::format("{}int64(q{} - q{} * {}) * {}", plus, a + 1, a, axes[a].size, axes[a].stride);
    }
  }
  return fmt::format("inline int64 {}(int64 at) {{\n{}  return {};\n}}\n", name, axes.empty() ? "" : body,
                     sum.empty() ? "0 * at" : sum);
}

std::string kernel(std::string_view name, const Reduction& reduction, const ReducePlan& plan, int pack) {
  // For columns, the plan assumes that 1024 threads of a multiprocessor run at once.
  std::string resident;
  if (plan.inner > 1)
    resident =
        fmt::format(", sizeof({}) <= 8 ? {} : 1", reduction.accumulator, std::min(16, 1024 / plan.threads));
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(kThreads{}) {}(const Buffers b, const int64 outer) {{\n"
      "  pdl_wait();\n  {}<{}, {}>(b{});\n}}\n",
      resident, name, plan.inner > 1 ? "reduce_columns" : "reduce_rows", reduction.accumulator, pack,
      plan.inner > 1 ? "" : ", outer");
}

}  // namespace

std::string reduce_source(const Reduction& reduction, const ReducePlan& plan) {
  std::string text = kFusedPrelude;
  text += "\nnamespace genesis_device {\n\n";
  text +=
      fmt::format("using In = {};\nusing Out = {};\n", memory_type(reduction.in), memory_type(reduction.out));
  text += fmt::format("constexpr int64 kCount = {}, kInner = {}, kPieces = {}, kPiece = {};\n", plan.count,
                      plan.inner, plan.pieces, plan.piece);
  text += fmt::format("constexpr int kThreads = {}, kLanes = {};\n", plan.threads, plan.lanes);
  text += fmt::format("constexpr double kDivisor = {:.1f};\n", reduction.divisor);
  text += place_function("kept", plan.kept, plan.outer) + place_function("along", plan.reduced, plan.count);
  text += "\n}  // namespace genesis_device\n";
  text += kReduceKit;
  text += "\nnamespace genesis_device {\n\n" + kernel("packed", reduction, plan, plan.pack);
  if (plan.pack > 1) text += kernel("single", reduction, plan, 1);
  return text + "\n}  // namespace genesis_device\n";
}

}  // namespace genesis::cuda
