// matmul and linear on CUDA: both describe their products to Gemm once, when a plan is made ready. Batch axes
// that lie evenly in both operands become the product's own batch; what is left is a list of offsets, one
// start each.
#include "backends/batch_axes.h"
#include "backends/cuda/gemm.h"
#include "backends/cuda/launch.h"

namespace genesis::cuda {
namespace {

struct Described {
  GemmProblem problem;
  std::vector<BatchOffsets> offsets;  // empty when there is nothing to write
};

Described describe_matmul(const KernelQuery& query) {
  const auto op = from_attributes<ops::Matmul>(query.attributes);
  const auto a = query.inputs[0].shape.sizes(), b = query.inputs[1].shape.sizes(),
             c = query.outputs[0].shape.sizes();
  Described made;
  GemmProblem& problem = made.problem;
  problem.in = problem.out = query.inputs[0].dtype;
  problem.m = c[c.size() - 2];
  problem.n = c.back();
  problem.k = op.transpose_a ? a[a.size() - 2] : a.back();
  problem.lda = a.back();
  problem.ldb = b.back();
  problem.ldc = c.back();
  problem.transpose_a = op.transpose_a;
  problem.transpose_b = op.transpose_b;
  if (query.outputs[0].numel() == 0) return made;
  std::vector<BatchAxis> axes = batch_axes(a, b, c);
  problem.m *= take_row_axis(axes, op.transpose_a, problem.m * problem.lda, problem.m * problem.ldc);
  if (const auto longest = take_longest(axes)) {
    problem.batch = longest->size;
    problem.stride_a = longest->a;
    problem.stride_b = longest->b;
    problem.stride_c = longest->c;
  }
  made.offsets = all_offsets(axes, static_cast<int64_t>(size_of(problem.in)));
  return made;
}

Described describe_linear(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  Described made;
  GemmProblem& problem = made.problem;
  problem.in = problem.out = query.inputs[0].dtype;
  problem.n = query.inputs[1].shape[0].value();
  problem.k = query.inputs[1].shape[1].value();
  problem.m = problem.n == 0 ? 0 : query.outputs[0].numel() / problem.n;
  problem.lda = problem.ldb = problem.k;
  problem.ldc = problem.n;
  problem.transpose_b = true;
  problem.has_bias = query.inputs.size() > 2;
  problem.activation = op.activation;
  if (query.outputs[0].numel() > 0) made.offsets = {{0, 0, 0}};
  return made;
}

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<BatchOffsets> offsets;
};

template <Described (*kDescribe)(const KernelQuery&)>
std::shared_ptr<const void> prepare(const KernelQuery& query) {
  Described described = kDescribe(query);
  auto products = std::make_shared<Products>();
  if (described.offsets.empty()) return products;
  products->gemm = Gemm::create(described.problem);
  products->offsets = std::move(described.offsets);
  return products;
}

template <Described (*kDescribe)(const KernelQuery&)>
int64_t scratch_bytes(const KernelQuery& query) {
  const Described described = kDescribe(query);
  return described.offsets.empty() ? 0 : gemm_workspace_bytes(described.problem);
}

void run(const KernelContext& c) {
  const auto& products = c.prepared<Products>();
  for (const BatchOffsets& at : products.offsets)
    products.gemm->run({.a = c.input(0).as<std::byte>() + at.a,
                        .b = c.input(1).as<std::byte>() + at.b,
                        .c = c.output().as<std::byte>() + at.c,
                        .bias = c.num_inputs() > 2 ? c.input(2).data : nullptr,
                        .workspace = c.scratch,
                        .stream = launch_of(c).stream});
}

constexpr KernelImpl kMatmul[] = {{.name = "gemm",
                                   .run = run,
                                   .scratch_bytes = scratch_bytes<describe_matmul>,
                                   .prepare = prepare<describe_matmul>}};
constexpr KernelImpl kLinear[] = {{.name = "gemm",
                                   .run = run,
                                   .scratch_bytes = scratch_bytes<describe_linear>,
                                   .prepare = prepare<describe_linear>}};
constexpr OpKernels kOps[] = {{"matmul", kMatmul}, {"linear", kLinear}};

}  // namespace

std::span<const OpKernels> matmul_kernels() { return kOps; }

}  // namespace genesis::cuda
