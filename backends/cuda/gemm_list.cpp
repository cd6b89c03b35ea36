#include "backends/cuda/gemm_list.h"

#include "backends/cuda/gemm/gemm_implementations.h"
#include "backends/implementation_list.h"

namespace genesis::cuda {
namespace {

std::string decline_nothing(const GemmProblem&) { return ""; }

constexpr GemmImplementation kImplementations[] = {
    {"gemv_prefetch", prefetched_gemv_declines, create_prefetched_gemv},
    {"gemv", gemv_declines, create_gemv},
    {"cublas_lt", lt_declines, create_lt, kLtWorkspaceBytes, why_no_lt_here,
     "the library is opened where it runs, and times its algorithms there; without it gemm.plain multiplies"},
    {"plain", decline_nothing, Gemm::create_plain},  // accepts everything, and cannot be switched off
};

}  // namespace

std::span<const GemmImplementation> gemm_implementations() { return kImplementations; }

std::shared_ptr<const Gemm> create_gemm(const GemmProblem& problem, const KernelNames* disabled) {
  const GemmImplementation& implementation =
      first_implementation("gemm", gemm_implementations(), problem, disabled);
  const bool is_missing = implementation.why_not_here && !implementation.why_not_here().empty();
  return is_missing ? Gemm::create_plain(problem) : implementation.create(problem);
}

int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled) {
  return first_implementation("gemm", gemm_implementations(), problem, disabled).workspace_bytes;
}

KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled) {
  return choose_implementation("gemm", gemm_implementations(), problem, disabled);
}

}  // namespace genesis::cuda
