// swiglu of one element and its gradient, shared by all kernels that compute them, so that all give the same bits.
// The 16-bit types use the chip's approximate power and reciprocal, whose errors are far below the types' last bit.
#pragma once

#include "backends/cuda/device/exponential.h"

namespace genesis::cuda {

template <class T>
__device__ __forceinline__ wide_t<T> sigmoid(wide_t<T> x) {
  const wide_t<T> power = exponential<T>(-x);
  if constexpr (sizeof(T) == 2) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
    return inverse;
  } else {
    return wide_t<T>(1) / (wide_t<T>(1) + power);
  }
}

// Returns swiglu of a gate and an up value of type T, not yet rounded to T.
template <class T>
__device__ __forceinline__ wide_t<T> gated(wide_t<T> gate, wide_t<T> up) {
  return gate * sigmoid<T>(gate) * up;
}

// The gradients of swiglu with respect to gate and up, and its output; not yet rounded to T.
template <class T>
struct GatedGradient {
  wide_t<T> dgate, dup, y;
};
template <class T>
__device__ __forceinline__ GatedGradient<T> gated_gradient(wide_t<T> gate, wide_t<T> up, wide_t<T> dy) {
  const wide_t<T> s = sigmoid<T>(gate);
  return {dy * up * s * (wide_t<T>(1) + gate * (wide_t<T>(1) - s)), dy * gate * s, gate * s * up};
}

}  // namespace genesis::cuda
