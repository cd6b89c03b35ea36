// swiglu and its gradient of one element, for every kernel that makes them, so that all give the same bits.
// 16-bit types take the chip's own power and reciprocal, whose errors are far below their last bit.
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

// Of a gate and an up of type T, before it is rounded to T.
template <class T>
__device__ __forceinline__ wide_t<T> gated(wide_t<T> gate, wide_t<T> up) {
  return gate * sigmoid<T>(gate) * up;
}

// By gate and up for dy, and the output once more; before they are rounded.
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
