// Which of the library's ways to multiply is fastest here: measured once per chip, library version and
// problem, and kept on disk. Used by gemm.cpp when a plan is made ready.
#pragma once

#include "backends/cuda/cublas_lt.h"

namespace genesis::cuda {

// Empty when the library knows no way. Takes at most about a third of a second, and temporary device memory
// of the size of the operands; where there is too little of it, the library's first guess it is.
std::optional<LtAlgorithm> best_algorithm(const GemmProblem& problem, const LtProduct& product);

// What decides about speed, as text. Public for tests.
std::string tuning_key(const GemmProblem& problem);
std::string to_text(const LtAlgorithm& algorithm);
std::optional<LtAlgorithm> algorithm_from_text(const std::string& text);

}  // namespace genesis::cuda
