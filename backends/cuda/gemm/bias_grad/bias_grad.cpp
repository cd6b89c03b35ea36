// A product and the sums of a's rows: the gradients of a linear layer with respect to its weight and its bias.
// cuBLASLt can sum the rows in the product's epilogue; this is used if it was measured to be no slower than the
// product and the sum one after the other. Otherwise those two run.
#include "backends/common/decomposed_products.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/lt/autotune.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/launch.h"
#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  DecomposedMatmul parts;
  std::optional<LtProduct> together;
  std::optional<LtAlgorithm> algorithm;  // empty: the decomposition is faster, or there is no algorithm
};

std::optional<std::string> decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Matmul>(query.attributes);
  if (op.epilogue != ops::MatmulEpilogue::kBiasGrad) return "no sums of rows are asked for";
  if (!op.transpose_a || op.transpose_b) return "not dy^T x";
  return std::nullopt;
}

// dweight [out, in] = dy [rows, out]^T x [rows, in]
GemmProblem problem_of(const KernelQuery& query) {
  const TensorType &dy = query.inputs[0], &x = query.inputs[1];
  GemmProblem problem;
  problem.in = problem.out = dy.dtype;
  problem.m = problem.lda = dy.shape[1].value();
  problem.n = problem.ldb = problem.ldc = x.shape[1].value();
  problem.k = dy.shape[0].value();
  problem.transpose_a = true;
  return problem;
}

// Runs the decomposition on the tuner's own memory.
void run_on_noise(const DecomposedMatmul& parts, const KernelQuery& query, const GemmData& data) {
  const TensorView in[] = {view_of(query.inputs[0], const_cast<void*>(data.a)),
                           view_of(query.inputs[1], const_cast<void*>(data.b))},
                   out[] = {view_of(query.outputs[0], data.c),
                            view_of(query.outputs[1], const_cast<void*>(data.bias))};
  const Launch launch{.stream = data.stream, .fault = {}, .multiprocessors = current_chip().multiprocessors};
  parts.run({.inputs = in, .outputs = out, .scratch = data.workspace, .launch = &launch});
}

std::shared_ptr<const void> prepare_bias_grad(const KernelQuery& query) {
  auto made = std::make_shared<Prepared>(Prepared{{kernels_for, true, query}, {}, {}});
  const GemmProblem problem = problem_of(query);
  if (query.outputs[0].numel() == 0 || !lt_declines(problem).empty() || !cublas_lt().available()) return made;
  if (made->parts.scratch_bytes() > kLtWorkspaceBytes) return made;
  made->together.emplace(problem, true);
  made->algorithm = best_with_sums(problem, *made->together,
                                   [&](const GemmData& data) { run_on_noise(made->parts, query, data); });
  return made;
}

int64_t bias_grad_scratch(const KernelQuery& query) {
  return DecomposedMatmul(kernels_for, false, query).scratch_bytes();
}

void run_bias_grad(const KernelContext& c) {
  const auto& prepared = c.prepared<Prepared>();
  const bool started = prepared.algorithm && aligned_to_packs(c) &&
                       prepared.together->run(*prepared.algorithm, {.a = c.input(0).data,
                                                                    .b = c.input(1).data,
                                                                    .c = c.output(0).data,
                                                                    .bias = c.output(1).data,
                                                                    .workspace = c.scratch,
                                                                    .stream = launch_of(c).stream});
  if (!started) run_decomposed(prepared.parts, c);
}

}  // namespace

KernelImpl matmul_bias_grad_implementation() {
  return {.name = "bias_grad_epilogue",
          .run = run_bias_grad,
          .can_run = decline,
          .scratch_bytes = bias_grad_scratch,
          .prepare = prepare_bias_grad};
}

}  // namespace genesis::cuda
