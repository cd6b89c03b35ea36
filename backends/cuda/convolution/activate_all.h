// The activation of all sums of a thread, for kernels of convolutions in 16 bits whose threads have many.
#pragma once

#include "backends/cuda/convolution/window_epilogue.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Returns true if activate_all() has the activation.
inline bool is_quick(ConvolutionActivation a) {
  using enum ConvolutionActivation;
  return a == kNone || a == kRelu || a == kRelu6 || a == kHardswish || a == kSilu || a == kSigmoid;
}

// The reason to decline others.
constexpr const char* kQuickActivations = "takes relu, relu6, hardswish, silu, sigmoid or no activation";

// y -> 1 / (1 + exp(-y)) in five instructions: numbers below the normal ones become zeros, and there are no checks for them.
__device__ __forceinline__ float quick_sigmoid(float y) {
  constexpr float kLog2OfE = 1.4426950408889634f;
  float power, quotient;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y * -kLog2OfE));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1.0f + power));
  return quotient;
}

template <ConvolutionActivation activation>
__device__ __forceinline__ float activated_in_few_instructions(float y) {
  if constexpr (activation == ConvolutionActivation::kSilu) return y * quick_sigmoid(y);
  if constexpr (activation == ConvolutionActivation::kSigmoid) return quick_sigmoid(y);
  return quickly_activated(y, activation);
}

// Chooses the activation, one for which is_quick() holds, once; `for_all` calls a function of a float& for each sum.
template <class ForAll>
__device__ __forceinline__ void activate_all(ConvolutionActivation activation, const ForAll& for_all) {
  using enum ConvolutionActivation;
  const auto by = [&](auto chosen) {
    for_all([](float& sum) { sum = activated_in_few_instructions<decltype(chosen)::value>(sum); });
  };
  if (activation == kRelu) by(std::integral_constant<ConvolutionActivation, kRelu>{});
  if (activation == kRelu6) by(std::integral_constant<ConvolutionActivation, kRelu6>{});
  if (activation == kHardswish) by(std::integral_constant<ConvolutionActivation, kHardswish>{});
  if (activation == kSilu) by(std::integral_constant<ConvolutionActivation, kSilu>{});
  if (activation == kSigmoid) by(std::integral_constant<ConvolutionActivation, kSigmoid>{});
}

#endif

}  // namespace genesis::cuda
