// The ordered list of matrix products on a GPU, and the choice among them: the ways are rooms of backends/cuda/gemm, each with a
// row here. Used by kernels that multiply, and by info and profile to say which way a product takes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cuda/gemm/gemm.h"
#include "schema/graph/target.h"

namespace genesis::cuda {

// One row of the list, best first. `decline` returns why it cannot run the problem, or an empty text; it knows this
// machine's chips, if there are any, and needs none.
struct GemmImplementation {
  const char* name;
  std::string (*decline)(const GemmProblem&);
  std::shared_ptr<const Gemm> (*create)(const GemmProblem&);
  int64_t workspace_bytes = 0;
  // Whether what it needs is here, which is asked where a product is made ready and not before; `decided_later` says so in a plan.
  std::string (*why_not_here)() = nullptr;
  const char* decided_later = "";
};

// The product of the first row that takes the problem here and is not switched off; the last takes everything. The device must
// be current. May time several ways (gemm/lt/autotune.h). `disabled`: of the query of the node that the product is for.
std::shared_ptr<const Gemm> create_gemm(const GemmProblem& problem, const KernelNames* disabled = nullptr);

// These do not ask a GPU.
std::span<const GemmImplementation> gemm_implementations();
int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled = nullptr);
// What create_gemm() would take: "gemm.cublas_lt".
KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled);

}  // namespace genesis::cuda
