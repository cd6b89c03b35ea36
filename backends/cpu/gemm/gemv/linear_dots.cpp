#include "backends/cpu/gemm/gemv/linear_dots.h"

#include <fmt/format.h>

#include "backends/common/matmul_problem.h"
#include "backends/cpu/gemm/gemm_implementations.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/kernels/nn/swiglu.h"
#include "backends/cpu/product_implementations.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

struct SeveralWeights {
  Dots dots;
  ops::Linear op;
  bool has_bias = false;

  int64_t operand_bytes() const {
    return round_up(op.weights * static_cast<int64_t>(sizeof(Dots::Operands)), kAlignment);
  }
};

std::shared_ptr<const SeveralWeights> make(const KernelQuery& query, const GemvKernel& kernel) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const bool gated = op.epilogue == ops::LinearEpilogue::kSwiglu;
  const DType x = query.inputs[0].dtype;
  return std::make_shared<SeveralWeights>(
      SeveralWeights{Dots(problems_of(query, op), gated ? swiglu_function(x) : nullptr, kernel), op,
                     op.has_bias(query.inputs.size())});
}

}  // namespace

std::vector<GemmProblem> problems_of(const KernelQuery& query, const ops::Linear& op) {
  std::vector<GemmProblem> problems(static_cast<size_t>(op.weights));
  for (size_t i = 0; i < problems.size(); ++i) {
    problems[i].a = problems[i].b = problems[i].bias = query.inputs[0].dtype;
    problems[i].c = query.outputs[0].dtype;
    describe_weight(query, op, i, problems[i]);
    problems[i].b_format = op.weight_format;
    problems[i].accumulate = op.has_addend;
    if (op.is_quantized()) problems[i].b = query.inputs[op.first_weight() + i].dtype;
  }
  return problems;
}

std::shared_ptr<const void> prepare_linear_dots(const KernelQuery& query, const GemvKernel& kernel) {
  return make(query, kernel);
}

// Scratch memory holds the operands of Dots, then the scratch memory of Dots.
int64_t linear_dots_scratch(const KernelQuery& query, const GemvKernel& kernel) {
  const auto made = make(query, kernel);
  return (CheckedSize(made->operand_bytes()) + made->dots.scratch_bytes()).value();
}

void run_linear_dots(const KernelContext& c) {
  const auto& p = c.prepared<SeveralWeights>();
  const auto weights = static_cast<size_t>(p.op.weights);
  auto* operands = reinterpret_cast<Dots::Operands*>(c.scratch);
  for (size_t i = 0; i < weights; ++i)
    operands[i] = {
        c.inputs[p.op.first_weight() + i].data, p.has_bias ? c.inputs[p.op.first_bias() + i].data : nullptr,
        c.outputs[c.outputs.size() == weights ? i : 0].data, p.op.has_addend ? c.inputs.back().data : nullptr,
        p.op.is_quantized() ? c.inputs[p.op.first_scale() + i].data : nullptr};
  p.dots.run(c.input(0).data, {operands, weights}, c.scratch + p.operand_bytes());
}

// --- the implementation `gemv`, for weights that are not quantized

namespace {

// Up to this many rows a layer takes as long as reading its weights; with more rows, separate products that run in parallel are
// faster.
constexpr int64_t kMaxSharedRows = 16;

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.weights < 2 || op.has_norm()) return "not several weights, or a norm ahead of them";
  if (op.is_quantized()) return "quantized weights";
  for (const GemmProblem& problem : problems_of(query, op)) {
    if (problem.m > kMaxSharedRows) return fmt::format("more than {} rows", kMaxSharedRows);
    if (std::string why = decline_gemv(problem); !why.empty()) return why;
  }
  return std::nullopt;
}

GemvKernel kernel_of(const KernelQuery& query) {
  const DType x = query.inputs[0].dtype;
  return dot_rows_kernel(x, x);
}

std::shared_ptr<const void> prepare_dots(const KernelQuery& query) {
  return prepare_linear_dots(query, kernel_of(query));
}

int64_t dots_scratch(const KernelQuery& query) { return linear_dots_scratch(query, kernel_of(query)); }

}  // namespace

KernelImpl linear_gemv_implementation() {
  return {.name = "gemv",
          .run = run_linear_dots,
          .can_run = decline,
          .scratch_bytes = dots_scratch,
          .prepare = prepare_dots};
}

}  // namespace genesis::cpu
