// matmul and linear on the CPU: both describe their products to Gemm once, when a plan is made. Batch axes
// that lie evenly in both operands become the product's own batch; what is left is a list of offsets.
#include <algorithm>
#include <vector>

#include "backends/batch_axes.h"
#include "backends/cpu/gemm.h"
#include "backends/kernel.h"
#include "schema/ops/matmul.h"

namespace genesis::cpu {
namespace {

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<BatchOffsets> offsets;  // one run of `gemm` each; empty when the result is
};

std::shared_ptr<const void> prepare_matmul(const KernelQuery& query) {
  const auto op = from_attributes<ops::Matmul>(query.attributes);
  const auto a = query.inputs[0].shape.sizes(), b = query.inputs[1].shape.sizes(),
             c = query.outputs[0].shape.sizes();
  auto products = std::make_shared<Products>();
  if (query.outputs[0].numel() == 0) return products;
  GemmProblem problem;
  problem.a = problem.b = problem.c = query.inputs[0].dtype;
  problem.m = c[c.size() - 2];
  problem.n = c.back();
  problem.k = op.transpose_a ? a[a.size() - 2] : a.back();
  problem.lda = a.back();
  problem.ldb = b.back();
  problem.ldc = c.back();
  problem.transpose_a = op.transpose_a;
  problem.transpose_b = op.transpose_b;
  std::vector<BatchAxis> axes = batch_axes(a, b, c);
  problem.m *= take_row_axis(axes, op.transpose_a, problem.m * problem.lda, problem.m * problem.ldc);
  if (const auto longest = take_longest(axes)) {
    problem.batch = longest->size;
    problem.stride_a = longest->a;
    problem.stride_b = longest->b;
    problem.stride_c = longest->c;
  }
  products->gemm = Gemm::create(problem);
  products->offsets = all_offsets(axes, static_cast<int64_t>(size_of(problem.a)));
  return products;
}

std::shared_ptr<const void> prepare_linear(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  auto products = std::make_shared<Products>();
  if (query.outputs[0].numel() == 0) return products;
  GemmProblem problem;
  problem.a = problem.b = problem.c = problem.bias = query.inputs[0].dtype;
  problem.n = query.inputs[1].shape[0].value();
  problem.k = query.inputs[1].shape[1].value();
  problem.m = query.outputs[0].numel() / problem.n;
  problem.lda = problem.ldb = problem.k;
  problem.ldc = problem.n;
  problem.transpose_b = true;
  problem.has_bias = query.inputs.size() > 2;
  problem.activation = op.activation;
  products->gemm = Gemm::create(problem);
  products->offsets = {{0, 0, 0}};
  return products;
}

template <std::shared_ptr<const void> (*kPrepare)(const KernelQuery&)>
int64_t scratch_bytes(const KernelQuery& query) {
  const auto prepared = kPrepare(query);
  const auto& products = *static_cast<const Products*>(prepared.get());
  return products.gemm ? products.gemm->scratch_bytes() : 0;
}

void run(const KernelContext& c) {
  const auto& products = c.prepared<Products>();
  const void* bias = c.num_inputs() > 2 ? c.input(2).data : nullptr;
  for (const BatchOffsets& at : products.offsets)
    products.gemm->run(c.input(0).as<std::byte>() + at.a, c.input(1).as<std::byte>() + at.b,
                       c.output().as<std::byte>() + at.c, bias, c.scratch);
}

constexpr KernelImpl kMatmul[] = {
    {.name = "gemm", .run = run, .scratch_bytes = scratch_bytes<prepare_matmul>, .prepare = prepare_matmul}};
constexpr KernelImpl kLinear[] = {
    {.name = "gemm", .run = run, .scratch_bytes = scratch_bytes<prepare_linear>, .prepare = prepare_linear}};
constexpr OpKernels kKernels[] = {{"matmul", kMatmul}, {"linear", kLinear}};

}  // namespace

std::span<const OpKernels> matmul_kernels() { return kKernels; }

}  // namespace genesis::cpu
