// The matrix product of the CUDA backend: one description, prepared once per step of a plan, then run as often as
// needed. backends/cuda/gemm_list.h chooses the implementation, from a folder here.
#pragma once

#include <memory>

#include "backends/cuda/gemm/gemm_problem.h"

namespace genesis::cuda {

class Gemm {
 public:
  virtual ~Gemm() = default;

  // Creates the product without a library and without tuning, for products that hardly ever run.
  static std::shared_ptr<const Gemm> create_plain(const GemmProblem& problem);

  // Only launches kernels.
  virtual void run(const GemmData& data) const = 0;
};

}  // namespace genesis::cuda
