// The activations that a GEMM's epilogue applies, as device functions.
#pragma once

#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

__device__ __forceinline__ float normal_cdf(float x) { return normcdff(x); }
__device__ __forceinline__ double normal_cdf(double x) { return normcdf(x); }

// x is float or double. NaN stays NaN.
template <class F>
__device__ __forceinline__ F activate(F x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return x < F(0) ? F(0) : x;
    case Activation::kGelu:
      return x == -INFINITY ? F(0) : x * normal_cdf(x);
    case Activation::kGeluTanh:
      return F(0.5) * x * (F(1) + tanh(F(0.7978845608028654) * (x + F(0.044715) * x * x * x)));
    case Activation::kSilu:
      return x / (F(1) + exp(-x));
    default:
      return x;
  }
}

}  // namespace genesis::cuda
