// The matrix product that takes every problem: integers, mixed types, and what the tests compare with.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"

namespace genesis::cpu {

std::string decline_reference(const GemmProblem& problem);  // never
std::shared_ptr<const Gemm> create_reference(const GemmProblem& problem);

}  // namespace genesis::cpu
