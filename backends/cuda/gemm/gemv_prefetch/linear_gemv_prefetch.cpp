// The implementation `gemv_prefetch` of linear: several weights in one launch, as in linear_gemv.h, or a norm of one
// row of x and the weights. It is the only GEMV kernel with a norm: with g the norm's weight, y = sum(x g w) /
// sqrt(mean(x^2) + eps), and the squares are summed together with the products.
#include "backends/cuda/gemm/gemv/linear_gemv.h"
#include "backends/cuda/gemm/gemv_prefetch/gemv_prefetch.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace {

std::optional<std::string> decline_norm(const KernelQuery& query, const ops::Linear& op) {
  if (gemv_problem(query, op, 0).m != 1) return "a norm of more than one row";
  if (query.inputs[1].dtype != query.inputs[0].dtype) return "a norm of another dtype";
  return std::nullopt;
}

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (const auto why = linear_gemv_declines(query, op)) return why;
  if (op.has_norm())
    if (const auto why = decline_norm(query, op)) return why;
  const GemmProblem p = gemv_problem(query, op, 0);
  const std::string why = prefetch_declines(p.in, op.epilogue == ops::LinearEpilogue::kSwiglu, p.m, p.k);
  return why.empty() ? std::nullopt : std::optional(why);
}

void run(const KernelContext& c) { run_linear_gemv(c, start_prefetched_gemv); }

}  // namespace

KernelImpl linear_gemv_prefetch_implementation() {
  return {.name = "gemv_prefetch",
          .run = run,
          .can_run = decline,
          .scratch_bytes = linear_gemv_scratch,
          .prepare = prepare_linear_gemv,
          .why_not_here = why_no_early_starts_here};
}

}  // namespace genesis::cuda
