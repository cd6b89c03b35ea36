// A few rows of x meet several weights in one start, or one row of x its norm and the weights: with g the norm's weight,
// y = sum(x g w) / sqrt(mean(x^2) + eps), and the squares are added up beside the products.
#include "backends/common/product_parts.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/kernels/nn/product_ways.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  LinearParts parts;  // where a buffer is no multiple of 16 bytes
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

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.epilogue == ops::LinearEpilogue::kWithSwiglu) return "gate and up are one weight";
  if (op.weights < 2 && !op.has_norm()) return "one product";
  if (op.is_quantized()) return "quantized weights";
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    if (!gemv_takes(problem_of(query, op, i)))
      return "too many rows, or rows that are no multiple of 16 bytes";
  if (!op.has_norm()) return std::nullopt;
  if (problem_of(query, op, 0).m != 1) return "a norm of more than one row";
  if (query.inputs[1].dtype != query.inputs[0].dtype) return "a norm of another dtype";
  return std::nullopt;
}

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  auto made = std::make_shared<Prepared>(Prepared{LinearParts(kernels_for, true, query),
                                                  op,
                                                  op.has_bias(query.inputs.size()),
                                                  problem_of(query, op, 0),
                                                  {}});
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i) made->n.push_back(problem_of(query, op, i).n);
  return made;
}

int64_t scratch_bytes(const KernelQuery& query) {
  return LinearParts(kernels_for, false, query).scratch_bytes();
}

bool try_in_one_start(const KernelContext& c, const Prepared& p) {
  if (!aligned_to_packs(c)) return false;
  const Launch& launch = launch_of(c);
  GemvStart start{launch.stream, launch.can_use_pdl, launch.early, true};
  std::vector<GemvWeight> layers;
  for (size_t i = 0; i < p.n.size(); ++i) {
    start.settled = start.settled && is_settled(c, static_cast<int>(p.op.first_weight() + i));
    const void* bias = p.has_bias ? c.inputs[p.op.first_bias() + i].data : nullptr;
    void* y = c.outputs[c.outputs.size() == p.n.size() ? i : 0].data;
    layers.push_back({c.inputs[p.op.first_weight() + i].data, bias, y, p.n[i]});
  }
  const bool gated = p.op.epilogue == ops::LinearEpilogue::kSwiglu;
  if (p.op.has_norm())
    return try_gemv_after_norm(p.problem, c.input(0).data, {c.input(1).data, p.op.eps}, layers, gated, start);
  if (gated)
    run_gemv_swiglu(p.problem, c.input(0).data, layers[0], layers[1], start);
  else
    run_gemv(p.problem, c.input(0).data, layers, start);
  return true;
}

void run(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (!try_in_one_start(c, p)) run_parts(p.parts, c);
}

}  // namespace

KernelImpl linear_gemv_way() {
  return {.name = "gemv", .run = run, .can_run = decline, .scratch_bytes = scratch_bytes, .prepare = prepare};
}

}  // namespace genesis::cuda
