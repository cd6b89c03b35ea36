// The ways that gemm_list.cpp knows to make a matrix product on a GPU, beside the plain one. Each lies in a folder of its own, which
// the list does not see. A decline says why not, and nothing where the way takes the problem; none of them asks a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/gemm/gemm.h"

namespace genesis::cuda {

// gemv_prefetch/: the rows of `gemv` on chips that start kernels early, with weights asked for before x is there.
std::string prefetched_gemv_declines(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_prefetched_gemv(const GemmProblem& problem);

// gemv/: a few rows of x, which read each weight once.
std::string gemv_declines(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_gemv(const GemmProblem& problem);

// lt/: by cuBLASLt, with the algorithm that was fastest here. Equal problems on one device share what is made.
constexpr int64_t kLtWorkspaceBytes = int64_t{32} << 20;
std::string lt_declines(const GemmProblem& problem);  // it takes f64, f32, f16 and bf16
std::shared_ptr<const Gemm> create_lt(const GemmProblem& problem);
std::string why_no_lt_here();  // opens the library

}  // namespace genesis::cuda
