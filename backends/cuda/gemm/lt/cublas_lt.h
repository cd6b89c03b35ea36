// cuBLASLt for row-major products: what the library reads as column-major is our matrix transposed, so C^T =
// op(B)^T op(A)^T is what it is asked for. Used by lt_gemm.cpp and autotune.cpp. Everything that can fail, fails
// when a product is made; starting one only reports whether it was started.
#pragma once

#include <cublasLt.h>

#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/gemm/gemm_ways.h"

namespace genesis::cuda {

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;
};

// Which activations the library applies by itself, to the accuracy that the dtype asks for.
bool lt_applies(Activation activation, DType dtype);

// One problem as the library knows it. Its activation must be one that the library applies.
class LtProduct {
 public:
  // Throws Error when the library refuses the description. The device must be current. With `sums_a` the
  // sums of op(A)'s rows [m], of C's dtype, go where GemmData::bias points; the problem has no bias then.
  explicit LtProduct(const GemmProblem& problem, bool sums_a = false);

  // The library's guesses, its best first, for buffers that start at multiples of `alignment` bytes.
  std::vector<LtAlgorithm> guesses(int count, uint32_t alignment) const;
  // Whether the library and the chip can still run it.
  bool accepts(const LtAlgorithm& algorithm) const;
  // False when the library refused to start.
  bool run(const LtAlgorithm& algorithm, const GemmData& data) const;

 private:
  cublasLtMatmulDescOpaque_t with_bias(const void* bias) const;

  bool has_bias_ = false;  // or sums that go there
  uint32_t reductions_ = 0;
  cudaDataType_t scale_ = CUDA_R_32F;
  double beta_ = 0;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, c_{};  // A and B as the library names them: our B and A
};

size_t lt_version();

}  // namespace genesis::cuda
