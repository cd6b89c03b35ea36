// Chooses the register-tile kernel of the packed product, and says why a problem is declined (gemm_implementations.h).
#include <string>

#include "backends/cpu/gemm/gemm_implementations.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {

MicroKernel micro_kernel_for(const GemmProblem& p) {
  return p.a == DType::f64 ? micro_kernel_f64() : micro_kernel_f32();
}

std::string decline_kernel(const GemmProblem& p, const MicroKernel& kernel) {
  if (p.batch * p.m * p.n == 0) return "the result is empty";
  if (!pack_function_a(p.a, kernel, true)) return "A is " + std::string(name_of(p.a));
  if (!pack_function_b(p.b, kernel, true)) return "B is " + std::string(name_of(p.b));
  const DType accumulator = wide_dtype(kernel.packed);
  if (!epilogue_function(accumulator, p.c)) return "C is " + std::string(name_of(p.c));
  return {};
}

std::string decline_packed(const GemmProblem& problem) {
  return decline_kernel(problem, micro_kernel_for(problem));
}

std::shared_ptr<const Gemm> create_packed(const GemmProblem& problem) {
  return create_packed_with("packed", problem, micro_kernel_for(problem));
}

}  // namespace genesis::cpu
