// exp as row kernels need it: as exact as the element type can show, and no dearer. Used by kernels/*.cu.
#pragma once

#include "backends/cuda/number.h"

namespace genesis::cuda {

// The 16-bit types take the hardware's approximation, whose error is far below their last bit.
template <class T>
__device__ __forceinline__ wide_t<T> exponential(wide_t<T> x) {
  return __expf(x);
}
template <>
__device__ __forceinline__ float exponential<float>(float x) {
  return expf(x);
}
template <>
__device__ __forceinline__ double exponential<double>(double x) {
  return exp(x);
}

// exp(scale (x - largest)). A factor common to all x, from rounding `largest`, cancels in what it is used
// for: ratios to the sum.
template <class T>
struct ScaledPower {
  float slope, offset;  // as powers of two
  __device__ ScaledPower(float scale, float largest)
      : slope(scale * 1.4426950408889634f), offset(-largest * slope) {}
  __device__ float operator()(T x) const {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(widen(x), slope, offset)));
    return power;
  }
};
template <>
struct ScaledPower<float> {
  float scale, largest;
  __device__ ScaledPower(float s, float l) : scale(s), largest(l) {}
  __device__ float operator()(float x) const { return expf(scale * (x - largest)); }
};
template <>
struct ScaledPower<double> {
  double scale, largest;
  __device__ ScaledPower(double s, double l) : scale(s), largest(l) {}
  __device__ double operator()(double x) const { return exp(scale * (x - largest)); }
};

}  // namespace genesis::cuda
