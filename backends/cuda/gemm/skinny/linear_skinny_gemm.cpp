// linear of the rows that decoding a batch of texts has: more than a GEMV takes, and too few for a general GEMM,
// which lets the memory idle between small steps. All weights of a node, with swiglu or an addend, run in one launch.
#include "backends/cuda/gemm/skinny/linear_skinny_gemm.h"

#include "backends/common/decomposed_products.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/skinny/skinny_gemm.h"
#include "backends/cuda/product_implementations.h"

namespace genesis::cuda {
namespace {

// A prepared node. `one` or `parts` runs it if buffers do not start at multiples of 16 bytes: one product, or the
// decomposition.
struct Prepared {
  ops::Linear op;
  Gemv gemv;
  GemmProblem problem;  // the first weight's
  std::shared_ptr<const Gemm> one;
  std::unique_ptr<DecomposedLinear> parts;
};

int64_t all_rows(const KernelQuery& query, const ops::Linear& op) {
  int64_t n = 0;
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i) n += skinny_problem(query, op, i).n;
  return n;
}

int64_t weight_bytes(const KernelQuery& query, const ops::Linear& op) {
  return all_rows(query, op) * skinny_problem(query, op, 0).k * 2;
}

// Returns whether the weights are so large that the library was at least as fast on an H100, because the cost of a
// launch no longer matters. A single weight is one launch with the library, too.
bool is_large(const KernelQuery& query, const ops::Linear& op) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return weight_bytes(query, op) > (op.weights == 1 ? 16 : 64) * kMiB;
}

// Returns the GEMV with the weights, biases and results of a run.
Gemv gemv_of(const KernelContext& c, const Prepared& p) {
  Gemv gemv = p.gemv;
  gemv.norm = p.op.has_norm() ? c.input(1).data : nullptr;
  gemv.independent = !gemv.norm || is_independent(c, 1);
  const bool has_bias = p.op.has_bias(c.inputs.size());
  for (size_t i = 0; i < static_cast<size_t>(p.op.weights); ++i) {
    const size_t weight = p.op.first_weight() + i;
    const int64_t n = c.inputs[weight].dim(0);
    gemv.independent = gemv.independent && is_independent(c, static_cast<int>(weight)) &&
                       (!has_bias || is_independent(c, static_cast<int>(p.op.first_bias() + i)));
    gemv.layer[i] = {c.inputs[weight].data,
                     has_bias ? c.inputs[p.op.first_bias() + i].data : nullptr,
                     p.op.has_addend ? c.inputs.back().data : nullptr,
                     c.outputs[i < c.outputs.size() ? i : 0].data,
                     n,
                     n,
                     0};
  }
  return gemv;
}

void run_otherwise(const KernelContext& c, const Prepared& p) {
  if (p.parts) return run_decomposed(*p.parts, c);
  p.one->run({.a = c.input(0).data,
              .b = c.input(1).data,
              .c = c.output().data,
              .bias = p.problem.has_bias ? c.input(2).data : nullptr,
              .addend = p.op.has_addend ? c.inputs.back().data : nullptr,
              .stream = launch_of(c).stream});
}

}  // namespace

GemmProblem skinny_problem(const KernelQuery& query, const ops::Linear& op, size_t weight) {
  GemmProblem problem;
  problem.in = problem.out = query.inputs[0].dtype;
  describe_weight(query, op, weight, problem);
  problem.accumulate = op.has_addend;
  return problem;
}

std::optional<std::string> linear_skinny_gemm_declines(const KernelQuery& query, const ops::Linear& op,
                                                       int64_t fewest_rows) {
  if (op.epilogue == ops::LinearEpilogue::kWithSwiglu) return "gate and up are one weight";
  if (op.is_quantized()) return "quantized weights";
  if (op.wide) return "a result of another dtype";
  if (op.weights > Gemv::kMaxLayers) return "more weights than a start takes";
  const GemmProblem problem = skinny_problem(query, op, 0);
  if (query.outputs[0].numel() == 0) return "nothing to compute";
  if (problem.m < fewest_rows) return "so few rows that a GEMV reads them";
  if (const auto why = skinny_gemm_decline(problem.in, problem.m, problem.k)) return why;
  if (is_large(query, op)) return "weights so large that products of matrices read them at memory's speed";
  return std::nullopt;
}

std::shared_ptr<const void> prepare_linear_skinny_gemm(const KernelQuery& query) {
  auto made = std::make_shared<Prepared>();
  made->op = from_attributes<ops::Linear>(query.attributes);
  made->problem = skinny_problem(query, made->op, 0);
  const GemmProblem& p = made->problem;
  made->gemv.m = p.m;
  made->gemv.k = p.k;
  made->gemv.lda = p.lda;
  made->gemv.layers = static_cast<int>(made->op.weights);
  made->gemv.eps = static_cast<float>(made->op.eps);
  made->gemv.activation = made->op.activation;
  if (made->op.is_unquantized_product())
    made->one = Gemm::create_plain(p);
  else
    made->parts = std::make_unique<DecomposedLinear>(kernels_for, true, query);
  return made;
}

int64_t linear_skinny_gemm_scratch(const KernelQuery& query) {
  if (from_attributes<ops::Linear>(query.attributes).is_unquantized_product()) return 0;
  return DecomposedLinear(kernels_for, false, query).scratch_bytes();
}

void run_linear_skinny_gemm(const KernelContext& c, StartSkinnyGemm start) {
  const auto& p = c.prepared<Prepared>();
  const Gemv gemv = gemv_of(c, p);
  const bool swiglu = p.op.epilogue == ops::LinearEpilogue::kSwiglu;
  const auto starts = [&](StartSkinnyGemm kernel) {
    return kernel(c.input(0).dtype, swiglu, gemv, c.input(0).data, launch_of(c));
  };
  if (!aligned_to_packs(c) || (!starts(start) && !starts(start_skinny_gemm))) run_otherwise(c, p);
}

namespace {

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.has_norm()) return "a norm, which every block would make again";
  return linear_skinny_gemm_declines(query, op,
                                     max_gemv_rows(size_of(query.inputs[0].dtype)) + 1);
}

void run(const KernelContext& c) { run_linear_skinny_gemm(c, start_skinny_gemm); }

}  // namespace

KernelImpl linear_skinny_gemm_implementation() {
  return {.name = "skinny_gemm",
          .run = run,
          .can_run = decline,
          .scratch_bytes = linear_skinny_gemm_scratch,
          .prepare = prepare_linear_skinny_gemm};
}

}  // namespace genesis::cuda
