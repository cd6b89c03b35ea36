// The matrix product of the CUDA backend: one description, made ready once per step of a plan, then started
// as often as wanted. Which way a product takes, backends/cuda/gemm_list.h says; the ways are rooms of this folder.
#pragma once

#include <memory>

#include "backends/cuda/gemm/gemm_problem.h"

namespace genesis::cuda {

class Gemm {
 public:
  virtual ~Gemm() = default;

  // Without a library, and ready at once: for what hardly ever runs.
  static std::shared_ptr<const Gemm> create_plain(const GemmProblem& problem);

  // Only starts kernels.
  virtual void run(const GemmData& data) const = 0;
};

}  // namespace genesis::cuda
