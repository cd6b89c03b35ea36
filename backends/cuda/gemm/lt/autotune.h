// Which of the library's ways to multiply is fastest here: measured once per chip, library version and
// problem, and kept on disk. Used by lt_gemm.cpp when a plan is made ready.
#pragma once

#include <functional>

#include "backends/cuda/gemm/lt/cublas_lt.h"

namespace genesis::cuda {

// Empty when the library knows no way. Takes at most about a third of a second, and temporary device memory
// of the size of the operands; where there is too little of it, the library's first guess it is.
std::optional<LtAlgorithm> best_algorithm(const GemmProblem& problem, const LtProduct& product);

// The same for a product that sums op(A)'s rows on its way; empty too where `apart`, which starts the product
// and the sum one after the other on the data it is given, takes less time.
std::optional<LtAlgorithm> best_with_sums(const GemmProblem& problem, const LtProduct& product,
                                          const std::function<void(const GemmData&)>& apart);

// What decides about speed, as text. Public for tests.
std::string tuning_key(const GemmProblem& problem);
std::string to_text(const LtAlgorithm& algorithm);
std::optional<LtAlgorithm> algorithm_from_text(const std::string& text);

}  // namespace genesis::cuda
