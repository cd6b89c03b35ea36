// Products with few rows (decoding, small batches): each weight is read once, from where it lies, and nothing
// is packed. Used by gemm.cpp ahead of the packed product.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"

namespace genesis::cpu {

std::string decline_small(const GemmProblem& problem);
std::shared_ptr<const Gemm> create_small(const GemmProblem& problem);

}  // namespace genesis::cpu
