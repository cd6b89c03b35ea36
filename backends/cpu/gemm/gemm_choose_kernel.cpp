// Which register-tile kernel a packed product takes, and why not (gemm_ways.h).
#include <string>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_ways.h"
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

std::string decline_amx(const GemmProblem& problem) {
  const MicroKernel kernel = micro_kernel_amx();
  if (kernel.mr == 0) return "this CPU has no AMX for bf16, or Linux does not give it";
  constexpr int64_t kMinRows = 16, kMinDepth = 16;  // half a tile of either would be empty
  if (problem.m < kMinRows || problem.n < kMinRows || problem.k < kMinDepth)
    return "the tiles would be mostly empty";
  return decline_kernel(problem, kernel);
}

std::shared_ptr<const Gemm> create_packed(const GemmProblem& problem) {
  return create_packed_with("packed", problem, micro_kernel_for(problem));
}

std::shared_ptr<const Gemm> create_amx(const GemmProblem& problem) {
  return create_packed_with("amx", problem, micro_kernel_amx());
}

}  // namespace genesis::cpu
