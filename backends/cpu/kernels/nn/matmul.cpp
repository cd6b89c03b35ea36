// matmul and linear on the CPU: both describe their products to Gemm once, when a plan is made. Batch axes
// that lie evenly in both operands become the product's own batch; what is left is a list of offsets.
#include <algorithm>
#include <vector>

#include "backends/common/matmul_problem.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cpu {
namespace {

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<BatchOffsets> offsets;  // one run of `gemm` each; empty when the result is
  bool has_bias = false, has_addend = false;
};

template <std::vector<BatchOffsets> (*kDescribe)(const KernelQuery&, GemmProblem&)>
std::shared_ptr<const void> prepare(const KernelQuery& query) {
  auto products = std::make_shared<Products>();
  GemmProblem problem;
  problem.a = problem.b = problem.c = problem.bias = query.inputs[0].dtype;
  products->offsets = kDescribe(query, problem);
  products->has_bias = problem.has_bias;
  products->has_addend = problem.accumulate;
  if (!products->offsets.empty()) products->gemm = Gemm::create(problem, query.disabled);
  return products;
}

constexpr auto prepare_matmul = prepare<describe_matmul<GemmProblem>>;
constexpr auto prepare_linear = prepare<describe_linear<GemmProblem>>;

template <std::vector<BatchOffsets> (*kDescribe)(const KernelQuery&, GemmProblem&)>
KernelChoice choose(const KernelQuery& query) {
  GemmProblem problem;
  problem.a = problem.b = problem.c = problem.bias = query.inputs[0].dtype;
  return kDescribe(query, problem).empty() ? KernelChoice{} : choose_gemm(problem, query.disabled);
}

template <std::shared_ptr<const void> (*kPrepare)(const KernelQuery&)>
int64_t scratch_bytes(const KernelQuery& query) {
  const auto prepared = kPrepare(query);
  const auto& products = *static_cast<const Products*>(prepared.get());
  return products.gemm ? products.gemm->scratch_bytes() : 0;
}

void run(const KernelContext& c) {
  const auto& products = c.prepared<Products>();
  const void* bias = products.has_bias ? c.input(2).data : nullptr;
  const auto* addend = products.has_addend ? c.inputs.back().as<const std::byte>() : nullptr;
  for (const BatchOffsets& at : products.offsets)
    products.gemm->run(c.input(0).as<std::byte>() + at.a, c.input(1).as<std::byte>() + at.b,
                       c.output().as<std::byte>() + at.c, bias, c.scratch, addend ? addend + at.c : nullptr);
}

constexpr KernelImpl kMatmul[] = {{.name = "gemm",
                                   .run = run,
                                   .scratch_bytes = scratch_bytes<prepare_matmul>,
                                   .prepare = prepare_matmul,
                                   .choose_inner = choose<describe_matmul<GemmProblem>>}};
constexpr KernelImpl kLinear[] = {{.name = "gemm",
                                   .run = run,
                                   .scratch_bytes = scratch_bytes<prepare_linear>,
                                   .prepare = prepare_linear,
                                   .choose_inner = choose<describe_linear<GemmProblem>>}};
constexpr OpKernels kKernels[] = {{"matmul", kMatmul}, {"linear", kLinear}};

}  // namespace

std::span<const OpKernels> matmul_kernels() { return kKernels; }

}  // namespace genesis::cpu
