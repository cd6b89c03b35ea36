// The matrix product implementations that gemm.cpp lists. decline_*() returns the reason why an implementation cannot run a
// problem, or an empty string if it can.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_problem.h"

namespace genesis::cpu {

class Gemm;

// Products with few rows (decoding, small batches): each weight is read once, where it lies, and nothing is packed.
std::string decline_gemv(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_gemv(const GemmProblem& problem);

// The packed matrix product: both operands are copied into panels, then tiles of C are computed from them in any order. It takes
// every product of f32, bf16, f16 or f64 that the implementations ahead of it decline.
std::string decline_packed(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_packed(const GemmProblem& problem);

std::string decline_packed_bf16(const GemmProblem& problem);  // with the CPU's bf16 dot product
std::shared_ptr<const Gemm> create_packed_bf16(const GemmProblem& problem);

// bf16 products on CPUs with AMX: both operands are packed into panels of tiles, then large tiles of C are computed from them.
std::string decline_amx(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_amx(const GemmProblem& problem);

// The packed product with a given kernel.
std::shared_ptr<const Gemm> create_packed_with(const char* name, const GemmProblem& problem,
                                               const MicroKernel& kernel);
std::string decline_kernel(const GemmProblem& problem, const MicroKernel& kernel);

// The general matrix product, which takes every problem, such as integers and mixed types.
std::string decline_reference(const GemmProblem& problem);  // never declines
std::shared_ptr<const Gemm> create_reference(const GemmProblem& problem);

}  // namespace genesis::cpu
