// matmul and linear on CUDA. A plain product is described to Gemm once, when a plan is prepared: batch dimensions
// that are evenly strided in both operands become the product's batch; the rest becomes a list of offsets with one
// launch each. Other forms have kernel implementations of their own (product_implementations.h) or are decomposed.
#include "backends/common/decomposed_products.h"
#include "backends/cuda/gemm_list.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

struct Described {
  GemmProblem problem;
  std::vector<BatchOffsets> offsets;  // empty if there is nothing to write
};

template <class Op>
Described describe(const KernelQuery& query) {
  Described made;
  made.problem.in = query.inputs[0].dtype;
  made.problem.out = query.outputs[0].dtype;
  if constexpr (std::is_same_v<Op, ops::Matmul>)
    made.offsets = describe_matmul(query, made.problem);
  else
    made.offsets = describe_linear(query, made.problem);
  return made;
}

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<BatchOffsets> offsets;
  bool has_bias = false, has_addend = false;
};

template <class Op>
std::shared_ptr<const void> prepare_device_matmul(const KernelQuery& query) {
  Described described = describe<Op>(query);
  auto products = std::make_shared<Products>();
  if (described.offsets.empty()) return products;
  products->gemm = create_gemm(described.problem, query.disabled);
  products->offsets = std::move(described.offsets);
  products->has_bias = described.problem.has_bias;
  products->has_addend = described.problem.accumulate;
  return products;
}

template <class Op>
int64_t device_matmul_scratch(const KernelQuery& query) {
  const Described described = describe<Op>(query);
  return described.offsets.empty() ? 0 : gemm_workspace_bytes(described.problem, query.disabled);
}

template <class Op>
KernelChoice choose(const KernelQuery& query) {
  const Described described = describe<Op>(query);
  return described.offsets.empty() ? KernelChoice{} : choose_gemm(described.problem, query.disabled);
}

void run_device_matmul(const KernelContext& c) {
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
                        .independent = is_independent(c, 1)});
}

template <class Op>
KernelImpl gemm_implementation() {
  return {.name = "gemm",
          .run = run_device_matmul,
          .can_run = decline_all_but_plain<Op>,
          .scratch_bytes = device_matmul_scratch<Op>,
          .prepare = prepare_device_matmul<Op>,
          .choose_inner = choose<Op>};
}

template <class Op, class Decomposed>
KernelImpl decomposed() {
  KernelImpl implementation = kDecomposed<Op, Decomposed, kernels_for>;
  implementation.run = [](const KernelContext& c) { run_decomposed(c.prepared<Decomposed>(), c); };
  return implementation;
}

KernelImpl dequantized() {
  KernelImpl implementation = kDequantized<kernels_for>;
  implementation.run = [](const KernelContext& c) { run_decomposed(c.prepared<DequantizedLinear>(), c); };
  return implementation;
}

}  // namespace

std::span<const OpKernel> matmul_kernels() {
  static const OpKernel ops[] = {{"matmul", gemm_implementation<ops::Matmul>()},
                                 {"matmul", matmul_swiglu_epilogue_implementation()},
                                 {"matmul", matmul_bias_grad_implementation()},
                                 {"matmul", decomposed<ops::Matmul, DecomposedMatmul>()},
                                 {"linear", linear_skinny_resident_implementation()},
                                 {"linear", linear_skinny_gemm_implementation()},
                                 {"linear", linear_row_tiles_implementation()},
                                 {"linear", gemm_implementation<ops::Linear>()},
                                 {"linear", linear_gemv_prefetch_implementation()},
                                 {"linear", linear_gemv_implementation()},
                                 {"linear", linear_quantized_gemv_stream_implementation()},
                                 {"linear", linear_quantized_gemv_implementation()},
                                 {"linear", linear_swiglu_epilogue_implementation()},
                                 {"linear", decomposed<ops::Linear, DecomposedLinear>()},
                                 {"linear", dequantized()}};
  return ops;
}

}  // namespace genesis::cuda
