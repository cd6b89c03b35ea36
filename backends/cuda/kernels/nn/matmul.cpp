// matmul and linear on CUDA: both describe their products to Gemm once, when a plan is made ready. Batch axes
// that lie evenly in both operands become the product's own batch; what is left is a list of offsets, one
// start each.
#include "backends/common/matmul_problem.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

struct Described {
  GemmProblem problem;
  std::vector<BatchOffsets> offsets;  // empty when there is nothing to write
};

template <std::vector<BatchOffsets> (*kDescribe)(const KernelQuery&, GemmProblem&)>
Described describe(const KernelQuery& query) {
  Described made;
  made.problem.in = made.problem.out = query.inputs[0].dtype;
  made.offsets = kDescribe(query, made.problem);
  return made;
}

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<BatchOffsets> offsets;
  bool has_bias = false, has_addend = false;
};

template <Described (*kDescribe)(const KernelQuery&)>
std::shared_ptr<const void> prepare(const KernelQuery& query) {
  Described described = kDescribe(query);
  auto products = std::make_shared<Products>();
  if (described.offsets.empty()) return products;
  products->gemm = Gemm::create(described.problem, query.disabled);
  products->offsets = std::move(described.offsets);
  products->has_bias = described.problem.has_bias;
  products->has_addend = described.problem.accumulate;
  return products;
}

template <Described (*kDescribe)(const KernelQuery&)>
int64_t scratch_bytes(const KernelQuery& query) {
  const Described described = kDescribe(query);
  return described.offsets.empty() ? 0 : gemm_workspace_bytes(described.problem, query.disabled);
}

void run(const KernelContext& c) {
  const auto& products = c.prepared<Products>();
  const auto* addend = products.has_addend ? c.inputs.back().as<const std::byte>() : nullptr;
  for (const BatchOffsets& at : products.offsets)
    products.gemm->run({.a = c.input(0).as<std::byte>() + at.a,
                        .b = c.input(1).as<std::byte>() + at.b,
                        .c = c.output().as<std::byte>() + at.c,
                        .bias = products.has_bias ? c.input(2).data : nullptr,
                        .addend = addend ? addend + at.c : nullptr,
                        .workspace = c.scratch,
                        .stream = launch_of(c).stream,
                        .can_use_pdl = launch_of(c).can_use_pdl,
                        .early = launch_of(c).early,
                        .settled = is_settled(c, 1)});
}

constexpr KernelImpl kMatmul[] = {{.name = "gemm",
                                   .run = run,
                                   .scratch_bytes = scratch_bytes<describe<describe_matmul<GemmProblem>>>,
                                   .prepare = prepare<describe<describe_matmul<GemmProblem>>>}};
constexpr KernelImpl kLinear[] = {{.name = "gemm",
                                   .run = run,
                                   .scratch_bytes = scratch_bytes<describe<describe_linear<GemmProblem>>>,
                                   .prepare = prepare<describe<describe_linear<GemmProblem>>>}};
constexpr OpKernels kOps[] = {{"matmul", kMatmul}, {"linear", kLinear}};

}  // namespace

std::span<const OpKernels> matmul_kernels() { return kOps; }

}  // namespace genesis::cuda
