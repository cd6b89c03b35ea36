// The ways that gemm.cpp knows to make a matrix product, best first. Each says why it declines a problem; empty: it does not.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_problem.h"

namespace genesis::cpu {

class Gemm;

// Products with few rows (decoding, small batches): each weight is read once, from where it lies, and nothing
// is packed. Used by gemm.cpp ahead of the packed product.
std::string decline_gemv(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_gemv(const GemmProblem& problem);

// The packed matrix product: both operands are copied into panels, then tiles of C are computed from them in
// any order. Used by gemm.cpp as the implementation for every floating-point product that is not tiny.
std::string decline_packed(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_packed(const GemmProblem& problem);

std::string decline_packed_bf16(const GemmProblem& problem);  // by the CPU's own bf16 dot product
std::shared_ptr<const Gemm> create_packed_bf16(const GemmProblem& problem);

// bf16 products on CPUs with AMX: both operands are packed into panels of tiles, then large tiles of C are computed from them.
std::string decline_amx(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_amx(const GemmProblem& problem);

// With any kernel: what the ways above come to, and tests try.
std::shared_ptr<const Gemm> create_packed_with(const char* name, const GemmProblem& problem,
                                               const MicroKernel& kernel);
std::string decline_kernel(const GemmProblem& problem, const MicroKernel& kernel);

// The matrix product that takes every problem: integers, mixed types, and what the tests compare with.
std::string decline_reference(const GemmProblem& problem);  // never
std::shared_ptr<const Gemm> create_reference(const GemmProblem& problem);

}  // namespace genesis::cpu
