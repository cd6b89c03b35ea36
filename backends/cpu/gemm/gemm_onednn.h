// bf16 products on CPUs with AMX, by oneDNN: each tile of C is one sequential primitive in one TBB task. Used
// by gemm.cpp ahead of the packed product.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"

namespace genesis::cpu {

std::string decline_onednn(const GemmProblem& problem);  // without AMX: our own kernels are as fast
std::shared_ptr<const Gemm> create_onednn(const GemmProblem& problem);

// What the primitives themselves can do, on any CPU: for tests.
std::string decline_onednn_anywhere(const GemmProblem& problem);

}  // namespace genesis::cpu
