// The epilogue of a convolution: activation(scale * sum + bias + addend), as an op's attributes say.
#pragma once

#include "backends/common/window_shape.h"
#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/number.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// One number for each output channel, of the dtype of x or wider.
template <class T>
struct ChannelNumbers {
  const T* numbers = nullptr;
  const wide_t<T>* wide = nullptr;

  __device__ wide_t<T> at(int64_t i, wide_t<T> otherwise) const {
    return wide ? wide[i] : numbers ? widen(numbers[i]) : otherwise;
  }
};

template <class W>
__device__ W activated(W y, ConvolutionActivation activation) {
  switch (activation) {
    case ConvolutionActivation::kRelu:
      return y < W(0) ? W(0) : y;
    case ConvolutionActivation::kRelu6:
      return y < W(0) ? W(0) : y > W(6) ? W(6) : y;
    case ConvolutionActivation::kHardswish: {
      const W gate = y + W(3);
      return y * (gate < W(0) ? W(0) : gate > W(6) ? W(6) : gate) / W(6);
    }
    case ConvolutionActivation::kSilu:
      return activate(y, Activation::kSilu);
    case ConvolutionActivation::kGelu:
      return activate(y, Activation::kGelu);
    case ConvolutionActivation::kGeluTanh:
      return activate(y, Activation::kGeluTanh);
    case ConvolutionActivation::kSigmoid:
      return W(1) / (W(1) + exp(-y));
    default:
      return y;
  }
}

// The same for a result of 16 bits, whose rounding hides that of quick exponentials and quotients.
__device__ __forceinline__ float quickly_activated(float y, ConvolutionActivation activation) {
  switch (activation) {
    case ConvolutionActivation::kHardswish:
      return y * fminf(fmaxf(y + 3.0f, 0.0f), 6.0f) * (1.0f / 6);
    case ConvolutionActivation::kSilu:
      return __fdividef(y, 1.0f + __expf(-y));
    case ConvolutionActivation::kSigmoid:
      return __fdividef(1.0f, 1.0f + __expf(-y));
    default:
      return activated(y, activation);
  }
}

template <class T>
struct WindowEpilogue {
  ChannelNumbers<T> scale, bias;
  const T* addend = nullptr;
  ConvolutionActivation activation = ConvolutionActivation::kNone;
  ChannelPlanes planes;
  int64_t positions = 1;

  __device__ wide_t<T> operator()(wide_t<T> sum, int64_t i) const {
    using W = wide_t<T>;
    const int64_t channel = (planes.last ? i : i / positions) % planes.channels;
    W y = sum * scale.at(channel, W(1)) + bias.at(channel, W(0));
    if (addend) y += widen(addend[i]);
    return activated(y, activation);
  }
};

template <class T>
ChannelNumbers<T> channel_numbers(const KernelContext& c, bool has, int64_t input) {
  if (!has) return {};
  const TensorView& view = c.input(static_cast<int>(input));
  if (view.dtype == c.output().dtype) return {view.as<const T>(), nullptr};
  return {nullptr, view.as<const wide_t<T>>()};
}

template <class T>
WindowEpilogue<T> window_epilogue(const KernelContext& c, const ConvolutionShape& s) {
  return {channel_numbers<T>(c, s.has_scale, 2),
          channel_numbers<T>(c, s.has_bias, s.bias_input()),
          s.has_addend ? c.input(static_cast<int>(s.addend_input())).as<const T>() : nullptr,
          s.activation,
          s.map_planes(),
          s.windows.positions()};
}

#endif

}  // namespace genesis::cuda
