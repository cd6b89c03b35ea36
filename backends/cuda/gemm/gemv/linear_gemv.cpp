#include "backends/cuda/gemm/gemv/linear_gemv.h"

#include "backends/common/decomposed_products.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/product_implementations.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  DecomposedLinear parts;  // for buffers that do not start at multiples of 16 bytes
  ops::Linear op;
  bool has_bias = false;
  GemmProblem problem;     // the first weight's
  std::vector<int64_t> n;  // one per weight
};

// Returns the GEMV of `count` weights, starting with weight `first`.
Gemv gemv_of(const KernelContext& c, const Prepared& p, size_t first, size_t count) {
  const GemmProblem& problem = p.problem;
  Gemv gemv{.m = problem.m,
            .k = problem.k,
            .lda = problem.lda,
            .splits = gemv_splits(problem.in, problem.k),
            .layers = static_cast<int>(count),
            .independent = true,
            .wide = problem.in != problem.out,
            .norm = p.op.has_norm() ? c.input(1).data : nullptr,
            .eps = static_cast<float>(p.op.eps),
            .activation = problem.activation,
            .layer = {}};
  for (size_t i = 0; i < p.n.size(); ++i)
    gemv.independent = gemv.independent && is_independent(c, static_cast<int>(p.op.first_weight() + i));
  for (size_t i = first; i < first + count; ++i)
    gemv.layer[i - first] = {c.inputs[p.op.first_weight() + i].data,
                             p.has_bias ? c.inputs[p.op.first_bias() + i].data : nullptr,
                             nullptr,
                             c.outputs[c.outputs.size() == p.n.size() ? i : 0].data,
                             p.n[i],
                             p.n[i],
                             0};
  return gemv;
}

// Returns false if nothing was started.
bool try_to_start(const KernelContext& c, const Prepared& p, StartGemv kernel) {
  const Launch& launch = launch_of(c);
  const bool swiglu = p.op.epilogue == ops::LinearEpilogue::kSwiglu;
  constexpr size_t kMaxAtOnce = Gemv::kMaxLayers;  // with a norm, no more weights are allowed
  for (size_t first = 0; first < p.n.size(); first += kMaxAtOnce) {
    const Gemv gemv = gemv_of(c, p, first, std::min(kMaxAtOnce, p.n.size() - first));
    const GemvStart start{launch.stream, launch.can_use_pdl, launch.early};
    const void* x = c.input(0).data;
    if (!kernel(p.problem.in, swiglu, gemv, x, start) && !start_gemv(p.problem.in, swiglu, gemv, x, start))
      return false;
  }
  return true;
}

}  // namespace

GemmProblem gemv_problem(const KernelQuery& query, const ops::Linear& op, size_t weight) {
  GemmProblem problem;
  problem.in = query.inputs[0].dtype;
  problem.out = query.outputs[0].dtype;
  describe_weight(query, op, weight, problem);
  return problem;
}

std::optional<std::string> linear_gemv_declines(const KernelQuery& query, const ops::Linear& op) {
  if (op.epilogue == ops::LinearEpilogue::kWithSwiglu) return "gate and up are one weight";
  if (op.weights < 2 && !op.has_norm()) return "one product";
  if (op.is_quantized()) return "quantized weights";
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    if (std::string why = gemv_declines(gemv_problem(query, op, i)); !why.empty()) return why;
  return std::nullopt;
}

std::shared_ptr<const void> prepare_linear_gemv(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  auto made = std::make_shared<Prepared>(Prepared{DecomposedLinear(kernels_for, true, query),
                                                  op,
                                                  op.has_bias(query.inputs.size()),
                                                  gemv_problem(query, op, 0),
                                                  {}});
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    made->n.push_back(gemv_problem(query, op, i).n);
  return made;
}

int64_t linear_gemv_scratch(const KernelQuery& query) {
  return DecomposedLinear(kernels_for, false, query).scratch_bytes();
}

void run_linear_gemv(const KernelContext& c, StartGemv kernel) {
  const auto& p = c.prepared<Prepared>();
  if (!aligned_to_packs(c) || !try_to_start(c, p, kernel)) run_decomposed(p.parts, c);
}

namespace {

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.has_norm()) return "a norm, which the kernel has no part of";
  return linear_gemv_declines(query, op);
}

void run(const KernelContext& c) { run_linear_gemv(c, start_gemv); }

}  // namespace

KernelImpl linear_gemv_implementation() {
  return {.name = "gemv",
          .run = run,
          .can_run = decline,
          .scratch_bytes = linear_gemv_scratch,
          .prepare = prepare_linear_gemv};
}

}  // namespace genesis::cuda
