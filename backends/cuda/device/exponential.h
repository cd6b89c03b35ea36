// Exponential functions for row kernels, only as exact as the element type can represent.
#pragma once

#include "backends/cuda/device/number.h"

namespace genesis::cuda {

// Returns 2 to the power of x by the hardware's approximation, whose error is far below the last bit of the 16-bit
// types.
__device__ __forceinline__ float approximate_power(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
inline constexpr float kLog2E = 1.4426950408889634f;

template <class T>
__device__ __forceinline__ wide_t<T> exponential(wide_t<T> x) {
  return approximate_power(x * kLog2E);
}
template <>
__device__ __forceinline__ float exponential<float>(float x) {
  return expf(x);
}
template <>
__device__ __forceinline__ double exponential<double>(double x) {
  return exp(x);
}

// Computes exp(x - shift), subtracting first.
template <class T>
struct ShiftedExponential {
  wide_t<T> shift;
  __device__ __forceinline__ explicit ShiftedExponential(wide_t<T> s) : shift(s) {}
  __device__ __forceinline__ wide_t<T> operator()(wide_t<T> x) const { return exponential<T>(x - shift); }
};

// Computes 2 to the power of x - shift, for scores that were already multiplied by log2(e).
struct PowerOfTwo {
  float shift;
  __device__ __forceinline__ explicit PowerOfTwo(float s) : shift(s) {}
  __device__ __forceinline__ float operator()(float x) const { return approximate_power(x - shift); }
};

// Computes exp(x - shift). For the 16-bit types this is a power of two with one fused multiply-add; the rounding
// error of shift * log2(e) cancels in ratios to the sum.
template <class T>
struct ShiftedPower {
  float shift, offset;
  __device__ __forceinline__ explicit ShiftedPower(float s) : shift(s), offset(-s * kLog2E) {}
  __device__ __forceinline__ float operator()(float x) const {
    if constexpr (std::is_same_v<T, float>) return expf(x - shift);
    return approximate_power(fmaf(x, kLog2E, offset));
  }
};

// Computes exp(scale (x - largest)). Rounding `largest` gives a factor common to all x, which cancels in ratios to
// the sum.
template <class T>
struct ScaledPower {
  float slope, offset;  // in units of log2
  __device__ ScaledPower(float scale, float largest) : slope(scale * kLog2E), offset(-largest * slope) {}
  __device__ float operator()(T x) const { return approximate_power(fmaf(widen(x), slope, offset)); }
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
