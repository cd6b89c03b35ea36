// The packed matrix product: both operands are copied into panels, then tiles of C are computed from them in
// any order. Used by gemm.cpp as the implementation for every floating-point product that is not tiny.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"

namespace genesis::cpu {

std::string decline_packed(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_packed(const GemmProblem& problem);

std::string decline_packed_bf16(const GemmProblem& problem);  // by the CPU's own bf16 dot product
std::shared_ptr<const Gemm> create_packed_bf16(const GemmProblem& problem);

std::string decline_amx(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_amx(const GemmProblem& problem);

// With any kernel: what the ways above come to, and tests try.
std::shared_ptr<const Gemm> create_packed_with(const char* name, const GemmProblem& problem,
                                               const MicroKernel& kernel);

}  // namespace genesis::cpu
