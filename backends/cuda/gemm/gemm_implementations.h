// The implementations of a matrix product in gemm_list.cpp, except the plain one. They are in folders that the
// list does not include. A `declines` function returns why it cannot take the problem, or an empty text; none of
// them asks a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/gemm/gemm.h"

namespace genesis::cuda {

// few_rows/: the same rows as `gemv` on chips with early kernel starts (PDL); loads weights before x is ready.
std::string prefetched_gemv_declines(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_prefetched_gemv(const GemmProblem& problem);

// few_rows/: a few rows of x; reads each weight once.
std::string gemv_declines(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_gemv(const GemmProblem& problem);

// lt/: cuBLASLt with the algorithm that was fastest on this machine. Equal problems on one device share a product.
constexpr int64_t kLtWorkspaceBytes = int64_t{32} << 20;
std::string lt_declines(const GemmProblem& problem);  // it accepts f64, f32, f16 and bf16
std::shared_ptr<const Gemm> create_lt(const GemmProblem& problem);
std::string why_no_lt_here();  // opens the library

}  // namespace genesis::cuda
