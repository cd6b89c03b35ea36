// cuBLASLt for row-major products: the library reads a matrix as column-major, which is our matrix transposed, so it
// is asked for C^T = op(B)^T op(A)^T. Errors are thrown when a product is created; running it only reports whether it
// was started.
#pragma once

#include <cublasLt.h>

#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/gemm/gemm_implementations.h"

namespace genesis::cuda {

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;
};

// Returns whether the library applies the activation with the accuracy that the dtype needs.
bool lt_applies(Activation activation, DType dtype);

// One problem in the library's terms. Its activation must be one that the library applies.
class LtProduct {
 public:
  // Throws Error if the library refuses the description. The device must be current. With `sums_a`, the sums of
  // op(A)'s rows [m], in C's dtype, are written to GemmData::bias; the problem has no bias then.
  explicit LtProduct(const GemmProblem& problem, bool sums_a = false);

  // Returns the library's guesses, its best first, for buffers that start at multiples of `alignment` bytes.
  std::vector<LtAlgorithm> guesses(int count, uint32_t alignment) const;
  // Returns whether the library and the chip can still run the algorithm.
  bool accepts(const LtAlgorithm& algorithm) const;
  // Returns false if the library refused to start.
  bool run(const LtAlgorithm& algorithm, const GemmData& data) const;

 private:
  cublasLtMatmulDescOpaque_t with_bias(const void* bias) const;

  bool has_bias_ = false;  // or sums that are written there
  uint32_t reductions_ = 0;
  cudaDataType_t scale_ = CUDA_R_32F;
  double beta_ = 0;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, c_{};  // A and B in the library's sense: our B and A
};

size_t lt_version();

}  // namespace genesis::cuda
