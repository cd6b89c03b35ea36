// norm_linear on CUDA: one row of x against all weights in one start, the norm folded into the sums: with g
// the norm's weight, y = sum(x g w) / sqrt(mean(x^2) + eps), and the squares are added up beside the
// products. Everything else is done in parts.
#include "backends/common/norm_parts.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  NormParts parts;
  GemmProblem problem;     // of the first layer
  std::vector<int64_t> n;  // of each
  bool one_row = false;
};

GemmProblem problem_of(const KernelQuery& query, const ops::NormLinear& op, size_t layer) {
  const TensorType &x = query.inputs[0], &weight = query.inputs[2 + layer];
  GemmProblem p;
  p.in = p.out = x.dtype;
  p.n = p.ldc = weight.shape[0].value();
  p.k = p.lda = p.ldb = weight.shape[1].value();
  p.m = p.k == 0 ? 0 : x.numel() / p.k;
  p.transpose_b = true;
  p.has_bias = op.has_bias;
  p.activation = op.activation;
  return p;
}

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  const auto op = from_attributes<ops::NormLinear>(query.attributes);
  auto made =
      std::make_shared<Prepared>(Prepared{NormParts(kernels_for, true, query), problem_of(query, op, 0), {}});
  made->one_row = is_allowed(query.disabled, "gemm", "few_rows") && made->problem.m == 1 &&
                  query.inputs[1].dtype == query.inputs[0].dtype;
  for (int i = 0; i < op.layers(query.inputs.size()); ++i) {
    const GemmProblem p = problem_of(query, op, static_cast<size_t>(i));
    made->n.push_back(p.n);
    made->one_row = made->one_row && few_rows_takes(p);
  }
  return made;
}

int64_t scratch_bytes(const KernelQuery& query) {
  return NormParts(kernels_for, false, query).scratch_bytes();
}

bool try_at_once(const KernelContext& c, const Prepared& p) {
  if (!p.one_row || !aligned_to_packs(c)) return false;
  const auto& op = c.attributes<ops::NormLinear>();
  const Launch& launch = launch_of(c);
  FewRowsStart start{launch.stream, launch.can_use_pdl, launch.early, true};
  std::vector<FewRowsLayer> layers;
  for (size_t i = 0; i < p.n.size(); ++i) {
    start.settled = start.settled && is_settled(c, static_cast<int>(2 + i));
    const void* bias = op.has_bias ? c.inputs[2 + p.n.size() + i].data : nullptr;
    layers.push_back({c.inputs[2 + i].data, bias, c.outputs[op.swiglu ? 0 : i].data, p.n[i]});
  }
  return try_few_rows_after_norm(p.problem, c.input(0).data, {c.input(1).data, op.eps}, layers, op.swiglu,
                                 start);
}

void run(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (try_at_once(c, p)) return;
  // Input i of the layers is input i + 1 here, but for x, which the norm makes.
  Launch launch = launch_of(c);
  launch.settled = launch.settled >> 1 & ~uint64_t{1};
  KernelContext parts = c;
  parts.launch = &launch;
  p.parts.run(parts);
}

constexpr KernelImpl kNormLinear[] = {
    {.name = "one_start", .run = run, .scratch_bytes = scratch_bytes, .prepare = prepare}};
constexpr OpKernels kOps[] = {{"norm_linear", kNormLinear}};

}  // namespace

std::span<const OpKernels> norm_linear_kernels() { return kOps; }

}  // namespace genesis::cuda
