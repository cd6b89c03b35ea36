// Convolutions over 1 to 3 spatial axes, x [batch, in, ...] and weight [out, in / groups, window...] as in torch, and the two ops
// that are their gradients. Each of the three is linear in both operands, and the gradients of each are the other two. Shapes are
// given with the channels behind the batch; with `channels_last` that axis is the last one of every operand and result.
#pragma once

#include "schema/graph/graph.h"
#include "schema/ops/nn/windows.h"

namespace genesis {

enum class ConvolutionActivation : uint8_t {
  kNone,
  kRelu,
  kRelu6,
  kHardswish,
  kSilu,
  kGelu,
  kGeluTanh,
  kSigmoid
};

template <>
struct EnumNames<ConvolutionActivation> {
  static constexpr std::string_view names[] = {"none", "relu", "relu6",     "hardswish",
                                               "silu", "gelu", "gelu_tanh", "sigmoid"};
};

namespace ops {

// Inputs: x, weight, then a scale [out], a bias [out] and an addend typed like the result, where the attributes say so. Scale and
// bias have x's dtype or f32. The result is activation(scale * (x * weight) + bias + addend). Passes introduce scale, addend and
// activation after autodiff, so a form with any of them has no gradient.
//
// With `packed_out`, the number of output channels, the weight is packed (see packed_weight()), x has channels_last, and there is no
// gradient. Passes choose this form for a target.
struct Convolution {
  static constexpr OpInfo info{
      .name = "convolution",
      .doc =
          "`activation`(scale * c + bias + addend) with c[n, o, p] = sum over channels i of o's group and "
          "taps t of x[n, i, p * stride + t * dilation - pads_begin] * weight[o, i, t]; scale and bias "
          "[out].",
      .inputs = {2, 5},
      .precision = Precision::kMatmul};
  Windows windows;
  int64_t groups = 1;
  ConvolutionActivation activation = ConvolutionActivation::kNone;
  bool has_scale = false, has_bias = false, has_addend = false;
  int64_t packed_out = 0;
  static void fields(auto& self, auto&& visit) {
    Windows::fields(self.windows, visit);
    visit("groups", self.groups);
    visit("activation", self.activation);
    visit("has_scale", self.has_scale);
    visit("has_bias", self.has_bias);
    visit("has_addend", self.has_addend);
    visit("packed_out", self.packed_out);
  }
  int bias_input() const { return 2 + has_scale; }
  int addend_input() const { return 2 + has_scale + has_bias; }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

// dy [batch, out, positions...], weight [out, in / groups, window...] -> the gradient of x [batch, in, sizes...]. It is the
// transposed convolution of dy (torch.nn.ConvTranspose2d has the weight of this op).
struct ConvolutionTransposed {
  static constexpr OpInfo info{
      .name = "convolution_transposed",
      .doc =
          "The gradient of convolution with respect to x [.., in, `sizes`], for dy and weight; a transposed "
          "convolution of dy.",
      .inputs = {2, 2},
      .precision = Precision::kMatmul};
  Windows windows;
  int64_t groups = 1;
  Shape sizes;  // sizes of the spatial axes of the result
  static void fields(auto& self, auto&& visit) {
    Windows::fields(self.windows, visit);
    visit("groups", self.groups);
    visit("sizes", self.sizes);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

// x, dy -> the gradient of weight [out, in / groups, window...].
struct ConvolutionWeightGradient {
  static constexpr OpInfo info{
      .name = "convolution_weight_gradient",
      .doc =
          "The gradient of convolution with respect to weight [out, in / `groups`, `window`], for x and dy.",
      .inputs = {2, 2},
      .precision = Precision::kMatmul};
  Windows windows;
  int64_t groups = 1;
  std::vector<int64_t> window;
  static void fields(auto& self, auto&& visit) {
    Windows::fields(self.windows, visit);
    visit("groups", self.groups);
    visit("window", self.window);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Emits the op in any form. `inputs` are x, weight, scale, bias and addend; the last three may be empty values, and the attributes
// has_... are set from them. x, weight and a bias are promoted to one dtype.
struct ConvolutionOperands {
  Value x, weight, scale = {}, bias = {}, addend = {};
};
Value convolution(ops::Convolution op, const ConvolutionOperands& operands);
// Emits a weight in the form that kernels of a CPU read in the order of memory: [out, in, window...] becomes
// [ceil(out / kPackedOut), window..., in, kPackedOut], filled up with zeros.
inline constexpr int64_t kPackedOut = 16;
Value packed_weight(Value weight);
// The transposed convolution of x [batch, in, ...] by weight [in, out / groups, window...]: [batch, out, sizes...].
Value convolution_transposed(const ops::ConvolutionTransposed& op, Value x, Value weight);

}  // namespace genesis
