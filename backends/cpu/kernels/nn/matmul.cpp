// matmul and linear on the CPU. A plain product is described to Gemm once, when a plan is made: batch axes with regular strides
// in both operands become the product's own batch, and the others a list of offsets. Other forms have their own implementations
// (product_implementations.h) or are decomposed.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/common/decomposed_products.h"
#include "backends/common/matmul_problem.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/product_implementations.h"

namespace genesis::cpu {
namespace {

// --- plain products

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<BatchOffsets> offsets;  // one run of `gemm` each; empty if the result is empty
  bool has_bias = false, has_addend = false;
};

struct Described {
  GemmProblem problem;
  std::vector<BatchOffsets> offsets;
};

// For x [rows, 1, k]: makes the product a batch of products of one row each.
void make_batch_of_rows(GemmProblem& problem) {
  problem.batch = problem.m;
  problem.m = 1;
  problem.stride_a = problem.lda;
  problem.stride_c = problem.ldc;
}

template <class Op>
Described describe(const KernelQuery& query) {
  Described made;
  made.problem.a = made.problem.b = made.problem.bias = query.inputs[0].dtype;
  made.problem.c = query.outputs[0].dtype;
  if constexpr (std::is_same_v<Op, ops::Matmul>) {
    made.offsets = describe_matmul(query, made.problem);
  } else {
    made.offsets = describe_linear(query, made.problem);
    if (rows_are_alone(query.inputs[0].shape)) make_batch_of_rows(made.problem);
  }
  return made;
}

template <class Op>
std::shared_ptr<const void> prepare_matmul(const KernelQuery& query) {
  auto products = std::make_shared<Products>();
  Described made = describe<Op>(query);
  products->offsets = std::move(made.offsets);
  products->has_bias = made.problem.has_bias;
  products->has_addend = made.problem.accumulate;
  if (!products->offsets.empty()) products->gemm = Gemm::create(made.problem, query.disabled);
  return products;
}

template <class Op>
KernelChoice choose(const KernelQuery& query) {
  const Described made = describe<Op>(query);
  return made.offsets.empty() ? KernelChoice{} : choose_gemm(made.problem, query.disabled);
}

template <class Op>
int64_t matmul_scratch(const KernelQuery& query) {
  const auto prepared = prepare_matmul<Op>(query);
  const auto& products = *static_cast<const Products*>(prepared.get());
  return products.gemm ? products.gemm->scratch_bytes() : 0;
}

void run_matmul(const KernelContext& c) {
  const auto& products = c.prepared<Products>();
  const void* bias = products.has_bias ? c.input(2).data : nullptr;
  const auto* addend = products.has_addend ? c.inputs.back().as<const std::byte>() : nullptr;
  for (const BatchOffsets& at : products.offsets)
    products.gemm->run(c.input(0).as<std::byte>() + at.a, c.input(1).as<std::byte>() + at.b,
                       c.output().as<std::byte>() + at.c, bias, c.scratch, addend ? addend + at.c : nullptr);
}

template <class Op>
constexpr KernelImpl kGemm = {.name = "gemm",
                              .run = run_matmul,
                              .can_run = decline_all_but_plain<Op>,
                              .scratch_bytes = matmul_scratch<Op>,
                              .prepare = prepare_matmul<Op>,
                              .choose_inner = choose<Op>};

}  // namespace

// The last implementation of each op takes every node that is a single product.
std::span<const OpKernel> matmul_kernels() {
  static const OpKernel kernels[] = {{"matmul", kDecomposed<ops::Matmul, DecomposedMatmul, kernels_for>},
                                     {"matmul", kGemm<ops::Matmul>},
                                     {"linear", linear_gemv_implementation()},
                                     {"linear", linear_quantized_panels_implementation()},
                                     {"linear", linear_quantized_gemv_implementation()},
                                     {"linear", kDecomposed<ops::Linear, DecomposedLinear, kernels_for>},
                                     {"linear", kDequantized<kernels_for>},
                                     {"linear", kGemm<ops::Linear>}};
  return kernels;
}

}  // namespace genesis::cpu
