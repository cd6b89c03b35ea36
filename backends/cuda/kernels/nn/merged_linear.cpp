// merged_linear and linear_swiglu on CUDA: a few rows of x meet all weights in one start. For more rows the
// layers run one after the other, each as a product of its own.
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/gemm_plain.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  std::vector<GemmProblem> problems;
  std::vector<std::shared_ptr<const Gemm>> gemms;
  bool few_rows = false, has_bias = false;
  const KernelNames* disabled = nullptr;  // the query's; gone once it is prepared
};

GemmProblem problem_of(const TensorType& x, const TensorType& weight, bool has_bias, Activation activation) {
  GemmProblem p;
  p.in = p.out = x.dtype;
  p.n = p.ldc = weight.shape[0].value();
  p.k = p.lda = p.ldb = weight.shape[1].value();
  p.m = 1;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) p.m *= x.shape[i].value();
  p.transpose_b = true;
  p.has_bias = has_bias;
  p.activation = activation;
  return p;
}

// Without the products themselves, which need a device.
Prepared describe(const KernelQuery& query) {
  Prepared made;
  size_t layers = 2;
  Activation activation = Activation::kNone;
  if (query.op.name() == ops::MergedLinear::info.name) {
    const auto op = from_attributes<ops::MergedLinear>(query.attributes);
    layers = static_cast<size_t>(op.layers(query.inputs.size()));
    activation = op.activation;
    made.has_bias = op.has_bias;
  } else {
    made.has_bias = query.inputs.size() > 3;
  }
  made.few_rows = is_allowed(query.disabled, "gemm", "few_rows");
  made.disabled = query.disabled;
  for (size_t i = 0; i < layers; ++i) {
    made.problems.push_back(problem_of(query.inputs[0], query.inputs[1 + i], made.has_bias, activation));
    made.few_rows = made.few_rows && few_rows_takes(made.problems.back());
  }
  return made;
}

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  auto prepared = std::make_shared<Prepared>(describe(query));
  for (const GemmProblem& p : prepared->problems) prepared->gemms.push_back(Gemm::create(p, query.disabled));
  return prepared;
}

int64_t workspace_bytes(const Prepared& prepared) {
  int64_t most = 0;
  for (const GemmProblem& p : prepared.problems)
    most = std::max(most, gemm_workspace_bytes(p, prepared.disabled));
  return most;
}

int64_t merged_scratch(const KernelQuery& query) { return workspace_bytes(describe(query)); }

int64_t aligned(int64_t bytes) { return CheckedSize(bytes).rounded_up(256).value(); }

// Before the products' own: what up gives.
int64_t swiglu_scratch(const KernelQuery& query) {
  return (CheckedSize(workspace_bytes(describe(query))) + aligned(query.outputs[0].bytes())).value();
}

FewRowsLayer layer_of(const KernelContext& c, const Prepared& p, size_t i, void* y) {
  const void* bias = p.has_bias ? c.inputs[1 + p.problems.size() + i].data : nullptr;
  return {c.inputs[1 + i].data, bias, y, p.problems[i].n};
}

FewRowsStart start_of(const KernelContext& c, const Prepared& p) {
  const Launch& launch = launch_of(c);
  FewRowsStart start{launch.stream, launch.can_use_pdl, launch.early, true};
  for (size_t i = 0; i < p.problems.size(); ++i)
    start.settled = start.settled && is_settled(c, static_cast<int>(1 + i));
  return start;
}

void run_layer(const KernelContext& c, const Prepared& p, size_t i, void* y, std::byte* workspace) {
  const FewRowsLayer layer = layer_of(c, p, i, y);
  p.gemms[i]->run({.a = c.input(0).data,
                   .b = layer.weight,
                   .c = y,
                   .bias = layer.bias,
                   .workspace = workspace,
                   .stream = launch_of(c).stream,
                   .can_use_pdl = launch_of(c).can_use_pdl,
                   .early = launch_of(c).early,
                   .settled = is_settled(c, static_cast<int>(1 + i))});
}

void run_merged(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (p.few_rows && aligned_to_packs(c)) {
    std::vector<FewRowsLayer> layers;
    for (size_t i = 0; i < p.problems.size(); ++i) layers.push_back(layer_of(c, p, i, c.outputs[i].data));
    return run_few_rows(p.problems[0], c.input(0).data, layers, start_of(c, p));
  }
  for (size_t i = 0; i < p.problems.size(); ++i) run_layer(c, p, i, c.outputs[i].data, c.scratch);
}

void run_swiglu(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  const TensorView& y = c.output();
  if (y.numel() == 0) return;
  if (p.few_rows && aligned_to_packs(c))
    return run_few_rows_swiglu(p.problems[0], c.input(0).data, layer_of(c, p, 0, y.data),
                               layer_of(c, p, 1, y.data), start_of(c, p));
  std::byte* workspace = c.scratch + aligned(y.bytes());
  run_layer(c, p, 0, y.data, workspace);
  run_layer(c, p, 1, c.scratch, workspace);
  run_gate(y.dtype, y.data, c.scratch, y.numel(), launch_of(c).stream);
}

constexpr KernelImpl kMergedLinear[] = {
    {.name = "gemm", .run = run_merged, .scratch_bytes = merged_scratch, .prepare = prepare}};
constexpr KernelImpl kLinearSwiglu[] = {
    {.name = "gemm", .run = run_swiglu, .scratch_bytes = swiglu_scratch, .prepare = prepare}};
constexpr OpKernels kOps[] = {{"merged_linear", kMergedLinear}, {"linear_swiglu", kLinearSwiglu}};

}  // namespace

std::span<const OpKernels> merged_linear_kernels() { return kOps; }

}  // namespace genesis::cuda
