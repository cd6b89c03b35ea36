// The ordered list of matrix product implementations, and the choice among them.
#include "backends/cpu/gemm/gemm.h"

#include "backends/cpu/gemm/gemm_implementations.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/simd/scalar_math.h"
#include "backends/implementation_list.h"

namespace genesis::cpu {
namespace {

constexpr GemmImplementation kImplementations[] = {
    {"gemv", decline_gemv, create_gemv},
    {"amx", decline_amx, create_amx},
    {"packed_bf16", decline_packed_bf16, create_packed_bf16},
    {"packed", decline_packed, create_packed},
    {"reference", decline_reference, create_reference},  // takes every problem and cannot be switched off
};

// Returns true if the batch only stacks rows of A and C, so that it is one taller product.
bool is_stacked(const GemmProblem& p) {
  return p.batch > 1 && p.m > 0 && p.stride_b == 0 && !p.transpose_a && p.stride_a == p.m * p.lda &&
         p.stride_c == p.m * p.ldc;
}

GemmProblem fold_batch(GemmProblem p) {
  if (is_stacked(p)) {
    p.m *= p.batch;
    p.batch = 1;
  }
  return p;
}

// Returns the problem by which an implementation is chosen. A stack of single rows is computed like one row, whatever the number
// of rows, so that each row gets the same bits as alone. (If B is stored [k, n], the implementation for one row only takes a few
// rows, and the stack is folded.)
GemmProblem problem_to_choose_by(GemmProblem p) {
  if (!is_stacked(p) || p.m != 1 || !p.transpose_b) return fold_batch(p);
  p.batch = 1;
  return p;
}

template <class From, class To>
void convert(const From* from, int64_t n, To* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

}  // namespace

std::span<const GemmImplementation> gemm_implementations() { return kImplementations; }

std::shared_ptr<const Gemm> Gemm::create(const GemmProblem& problem, const KernelNames* disabled) {
  const GemmProblem folded = fold_batch(problem);
  return first_implementation("gemm", gemm_implementations(), problem_to_choose_by(problem), disabled)
      .create(folded);
}

KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled) {
  return choose_implementation("gemm", gemm_implementations(), problem_to_choose_by(problem), disabled);
}

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return scalar::relu(x);
    case Activation::kGelu:
      return scalar::gelu(x);
    case Activation::kGeluTanh:
      return scalar::gelu_tanh(x);
    case Activation::kSilu:
      return scalar::silu(x);
  }
  return x;
}

void convert_bias(const void* bias, DType dtype, int64_t first, int64_t n, DType accumulator,
                  void* converted) {
  dispatch(dtype, [&](auto tag) {
    const auto* from = static_cast<const typename decltype(tag)::type*>(bias) + first;
    if (accumulator == DType::f64)
      convert(from, n, static_cast<double*>(converted));
    else
      convert(from, n, static_cast<float*>(converted));
  });
}

}  // namespace genesis::cpu
