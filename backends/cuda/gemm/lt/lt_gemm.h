// Products by cuBLASLt, with the algorithm that was fastest here (autotune.h). Used by gemm_list.cpp.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/gemm/gemm.h"

namespace genesis::cuda {

// Equal problems on one device share what is made.
std::shared_ptr<const Gemm> create_lt(const GemmProblem& problem);
std::string why_no_lt_here();  // opens the library

}  // namespace genesis::cuda
