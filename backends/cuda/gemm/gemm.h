// The matrix product of the CUDA backend: one description, made ready once per step of a plan, then started
// as often as wanted. Used by the matmul, linear and linear_cross_entropy kernels. cuBLASLt does most of
// them; a few rows against a weight are read at the memory's speed by an own kernel; the plain kernel takes
// the rest.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cuda/gemm/gemm_problem.h"
#include "schema/graph/target.h"

namespace genesis::cuda {

class Gemm {
 public:
  virtual ~Gemm() = default;

  // The device must be current. May time several ways (autotune.h). `disabled`: of the query of the node that
  // the product is for; "gemm.gemv" and "gemm.cublas_lt" can be switched off.
  static std::shared_ptr<const Gemm> create(const GemmProblem& problem,
                                            const KernelNames* disabled = nullptr);
  // Without a library, and ready at once: for what hardly ever runs.
  static std::shared_ptr<const Gemm> create_plain(const GemmProblem& problem);

  // Only starts kernels.
  virtual void run(const GemmData& data) const = 0;
};

// Asks no GPU.
int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled = nullptr);

}  // namespace genesis::cuda
