// Finds the fastest cuBLASLt algorithm: measured once per chip, library version and problem, and kept on disk.
#pragma once

#include <functional>

#include "backends/cuda/gemm/lt/cublas_lt.h"

namespace genesis::cuda {

// Returns nothing if the library has no algorithm. Takes at most about a third of a second, and temporary device
// memory of the size of the operands; with too little memory, returns the library's first guess.
std::optional<LtAlgorithm> best_algorithm(const GemmProblem& problem, const LtProduct& product);

// The same for a product that also sums op(A)'s rows. Also returns nothing if `apart`, which starts the product and
// the sum one after the other on the given data, takes less time.
std::optional<LtAlgorithm> best_with_sums(const GemmProblem& problem, const LtProduct& product,
                                          const std::function<void(const GemmData&)>& apart);

// All properties that affect speed, as text. Public for tests.
std::string tuning_key(const GemmProblem& problem);
std::string to_text(const LtAlgorithm& algorithm);
std::optional<LtAlgorithm> algorithm_from_text(const std::string& text);

}  // namespace genesis::cuda
