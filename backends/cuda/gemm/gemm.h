// The matrix product of the CUDA backend: one description, made ready once per step of a plan, then started
// as often as wanted. Used by the matmul, linear and linear_cross_entropy kernels. cuBLASLt does most of
// them; a few rows against a weight are read at the memory's speed by an own kernel; the plain kernel takes
// the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cuda/gemm/gemm_problem.h"
#include "schema/graph/target.h"

namespace genesis::cuda {

class Gemm {
 public:
  virtual ~Gemm() = default;

  // By the first row of the list that takes the problem here and is not switched off; the last takes everything. The
  // device must be current. May time several ways (autotune.h). `disabled`: of the query of the node that the product is for.
  static std::shared_ptr<const Gemm> create(const GemmProblem& problem,
                                            const KernelNames* disabled = nullptr);
  // Without a library, and ready at once: for what hardly ever runs.
  static std::shared_ptr<const Gemm> create_plain(const GemmProblem& problem);

  // Only starts kernels.
  virtual void run(const GemmData& data) const = 0;
};

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

// Neither asks a GPU.
std::span<const GemmImplementation> gemm_implementations();
int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled = nullptr);
// What create() would take: "gemm.cublas_lt".
KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled);

}  // namespace genesis::cuda
