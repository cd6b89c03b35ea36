// A few rows of x meet several weights in one start, or one row of x its norm and the weights: with g the norm's weight,
// y = sum(x g w) / sqrt(mean(x^2) + eps), and the squares are added up beside the products. Two rows of the table: the
// kernel of gemv_prefetch, which alone does norms, and that of gemv.
#include "backends/common/decomposed_products.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/gemv_prefetch/gemv_prefetch.h"
#include "backends/cuda/kernels/nn/product_ways.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  DecomposedLinear parts;  // where a buffer is no multiple of 16 bytes
  ops::Linear op;
  bool has_bias = false;
  GemmProblem problem;     // of the first weight
  std::vector<int64_t> n;  // of each
};

GemmProblem problem_of(const KernelQuery& query, const ops::Linear& op, size_t weight) {
  GemmProblem problem;
  problem.in = problem.out = query.inputs[0].dtype;
  describe_weight(query, op, weight, problem);
  return problem;
}

// What holds for both kernels.
std::optional<std::string> decline_either(const KernelQuery& query, const ops::Linear& op) {
  if (op.epilogue == ops::LinearEpilogue::kWithSwiglu) return "gate and up are one weight";
  if (op.weights < 2 && !op.has_norm()) return "one product";
  if (op.is_quantized()) return "quantized weights";
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    if (std::string why = gemv_declines(problem_of(query, op, i)); !why.empty()) return why;
  return std::nullopt;
}

std::optional<std::string> decline_norm(const KernelQuery& query, const ops::Linear& op) {
  if (problem_of(query, op, 0).m != 1) return "a norm of more than one row";
  if (query.inputs[1].dtype != query.inputs[0].dtype) return "a norm of another dtype";
  return std::nullopt;
}

std::optional<std::string> decline_prefetched(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (const auto why = decline_either(query, op)) return why;
  if (op.has_norm())
    if (const auto why = decline_norm(query, op)) return why;
  const GemmProblem p = problem_of(query, op, 0);
  const std::string why = prefetch_declines(p.in, op.epilogue == ops::LinearEpilogue::kSwiglu, p.m, p.k);
  return why.empty() ? std::nullopt : std::optional(why);
}

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.has_norm()) return "a norm, which the kernel has no part of";
  return decline_either(query, op);
}

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  auto made = std::make_shared<Prepared>(Prepared{DecomposedLinear(kernels_for, true, query),
                                                  op,
                                                  op.has_bias(query.inputs.size()),
                                                  problem_of(query, op, 0),
                                                  {}});
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i) made->n.push_back(problem_of(query, op, i).n);
  return made;
}

int64_t scratch_bytes(const KernelQuery& query) {
  return DecomposedLinear(kernels_for, false, query).scratch_bytes();
}

// `count` of the weights from the one numbered `first` on.
Gemv gemv_of(const KernelContext& c, const Prepared& p, size_t first, size_t count) {
  const GemmProblem& problem = p.problem;
  Gemv gemv{.m = problem.m,
            .k = problem.k,
            .lda = problem.lda,
            .splits = gemv_splits(problem.in, problem.k),
            .layers = static_cast<int>(count),
            .independent = true,
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

// False: nothing was started.
bool try_to_start(const KernelContext& c, const Prepared& p, StartGemv kernel) {
  const Launch& launch = launch_of(c);
  const bool swiglu = p.op.epilogue == ops::LinearEpilogue::kSwiglu;
  constexpr size_t kMaxAtOnce = Gemv::kMaxLayers;  // so many weights at most have a norm
  for (size_t first = 0; first < p.n.size(); first += kMaxAtOnce) {
    const Gemv gemv = gemv_of(c, p, first, std::min(kMaxAtOnce, p.n.size() - first));
    const GemvStart start{launch.stream, launch.can_use_pdl, launch.early};
    const void* x = c.input(0).data;
    if (!kernel(p.problem.in, swiglu, gemv, x, start) && !start_gemv(p.problem.in, swiglu, gemv, x, start))
      return false;
  }
  return true;
}

template <StartGemv kKernel>
void run(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (!aligned_to_packs(c) || !try_to_start(c, p, kKernel)) run_decomposed(p.parts, c);
}

}  // namespace

KernelImpl linear_gemv_prefetch_way() {
  return {.name = "gemv_prefetch",
          .run = run<start_prefetched_gemv>,
          .can_run = decline_prefetched,
          .scratch_bytes = scratch_bytes,
          .prepare = prepare,
          .why_not_here = why_no_early_starts_here};
}

KernelImpl linear_gemv_way() {
  return {.name = "gemv",
          .run = run<start_gemv>,
          .can_run = decline,
          .scratch_bytes = scratch_bytes,
          .prepare = prepare};
}

}  // namespace genesis::cuda
