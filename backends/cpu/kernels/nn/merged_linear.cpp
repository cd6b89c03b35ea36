// merged_linear and linear_swiglu on the CPU. Few rows of x meet all weights in one parallel region, so that
// a decoding step starts and joins its threads once for q, k and v, and once for gate and up. For more rows
// the layers run one after the other, each as a product of its own.
#include <algorithm>
#include <vector>

#include "backends/cpu/gemm/gemm_dots.h"
#include "backends/cpu/gemm/gemm_small.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/kernels/nn/swiglu.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cpu {
namespace {

struct Prepared {
  std::optional<Dots> dots;                        // few rows
  std::vector<std::shared_ptr<const Gemm>> gemms;  // else: one per layer, null where its result is empty
  SwigluFunction swiglu = nullptr;
  size_t layers = 0;
  bool has_bias = false;
  int64_t second_bytes = 0;  // linear_swiglu with many rows: what up gives

  // Scratch: the operands of Dots, or what up gives; then what the products want.
  int64_t head_bytes() const {
    const auto operands = static_cast<int64_t>(layers * sizeof(Dots::Operands));
    return round_up(dots ? operands : second_bytes, kAlignment);
  }
  int64_t scratch_bytes() const {
    int64_t most = dots ? dots->scratch_bytes() : 0;
    for (const auto& gemm : gemms)
      if (gemm) most = std::max(most, gemm->scratch_bytes());
    return (CheckedSize(head_bytes()) + most).value();
  }
};

GemmProblem problem_of(const TensorType& x, const TensorType& weight, bool has_bias, Activation activation) {
  GemmProblem p;
  p.a = p.b = p.c = p.bias = x.dtype;
  p.n = p.ldc = weight.shape[0].value();
  p.k = p.lda = p.ldb = weight.shape[1].value();
  p.m = 1;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) p.m *= x.shape[i].value();
  p.transpose_b = true;
  p.has_bias = has_bias;
  p.activation = activation;
  return p;
}

std::shared_ptr<Prepared> prepare_layers(const KernelQuery& query, size_t layers, bool has_bias,
                                         Activation activation, SwigluFunction swiglu) {
  auto prepared = std::make_shared<Prepared>();
  prepared->layers = layers;
  prepared->has_bias = has_bias;
  prepared->swiglu = swiglu;
  std::vector<GemmProblem> problems;
  for (size_t i = 0; i < layers; ++i)
    problems.push_back(problem_of(query.inputs[0], query.inputs[1 + i], has_bias, activation));
  if (is_allowed(query.disabled, "gemm", "few_rows") &&
      std::all_of(problems.begin(), problems.end(),
                  [](const GemmProblem& p) { return decline_small(p).empty(); })) {
    prepared->dots.emplace(problems, swiglu);
    return prepared;
  }
  for (const GemmProblem& p : problems)
    prepared->gemms.push_back(p.m * p.n == 0 ? nullptr : Gemm::create(p, query.disabled));
  if (swiglu) prepared->second_bytes = query.outputs[0].bytes();
  return prepared;
}

std::shared_ptr<const void> prepare_merged(const KernelQuery& query) {
  const auto op = from_attributes<ops::MergedLinear>(query.attributes);
  return prepare_layers(query, static_cast<size_t>(op.layers(query.inputs.size())), op.has_bias,
                        op.activation, nullptr);
}

std::shared_ptr<const void> prepare_swiglu(const KernelQuery& query) {
  return prepare_layers(query, 2, query.inputs.size() > 3, Activation::kNone,
                        swiglu_function(query.inputs[0].dtype));
}

template <std::shared_ptr<const void> (*kPrepare)(const KernelQuery&)>
int64_t scratch_bytes(const KernelQuery& query) {
  return static_cast<const Prepared*>(kPrepare(query).get())->scratch_bytes();
}

const void* weight_of(const KernelContext& c, size_t layer) { return c.inputs[1 + layer].data; }
const void* bias_of(const KernelContext& c, const Prepared& p, size_t layer) {
  return p.has_bias ? c.inputs[1 + p.layers + layer].data : nullptr;
}

void run_dots(const KernelContext& c, const Prepared& p) {
  auto* operands = reinterpret_cast<Dots::Operands*>(c.scratch);
  for (size_t i = 0; i < p.layers; ++i)
    operands[i] = {weight_of(c, i), bias_of(c, p, i), c.outputs[p.swiglu ? 0 : i].data};
  p.dots->run(c.input(0).data, {operands, p.layers}, c.scratch + p.head_bytes());
}

void run_gemm(const KernelContext& c, const Prepared& p, size_t layer, void* result) {
  if (p.gemms[layer])
    p.gemms[layer]->run(c.input(0).data, weight_of(c, layer), result, bias_of(c, p, layer),
                        c.scratch + p.head_bytes());
}

void run_merged(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (p.dots) return run_dots(c, p);
  for (size_t i = 0; i < p.layers; ++i) run_gemm(c, p, i, c.outputs[i].data);
}

void run_swiglu(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (p.dots) return run_dots(c, p);
  run_gemm(c, p, 0, c.output().data);
  run_gemm(c, p, 1, c.scratch);
  const auto element = static_cast<int64_t>(size_of(c.output().dtype)), n = c.output().numel();
  parallel_rows((n + 63) / 64, 3 * 64 * element, [&](int64_t first, int64_t last) {
    const int64_t begin = first * 64, end = std::min(last * 64, n);
    auto* y = c.output().as<std::byte>() + begin * element;
    p.swiglu(y, c.scratch + begin * element, y, end - begin);
  });
}

constexpr KernelImpl kMergedLinear[] = {{.name = "gemm",
                                         .run = run_merged,
                                         .scratch_bytes = scratch_bytes<prepare_merged>,
                                         .prepare = prepare_merged}};
constexpr KernelImpl kLinearSwiglu[] = {{.name = "gemm",
                                         .run = run_swiglu,
                                         .scratch_bytes = scratch_bytes<prepare_swiglu>,
                                         .prepare = prepare_swiglu}};
constexpr OpKernels kKernels[] = {{"merged_linear", kMergedLinear}, {"linear_swiglu", kLinearSwiglu}};

}  // namespace

std::span<const OpKernels> merged_linear_kernels() { return kKernels; }

}  // namespace genesis::cpu
