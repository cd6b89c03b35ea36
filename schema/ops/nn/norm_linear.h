// Linear layers that read one normalised x, as decoding does them: a pass makes this op of rms_norm and what
// reads it, so that a kernel can do both in one start.
#pragma once

#include "schema/ops/nn/matmul.h"

namespace genesis {
namespace ops {

struct NormLinear {
  static constexpr OpInfo info{.name = "norm_linear",
                               .doc =
                                   "merged_linear, or with `swiglu` linear_swiglu, of rms_norm(x, norm): x "
                                   "[..., in], norm [in], then up to 8 "
                                   "weights [out_i, in] and as many biases where `has_bias`.",
                               .inputs = {3, 18},
                               .precision = Precision::kMatmul};
  double eps = 1e-6;
  bool has_bias = false, swiglu = false;
  Activation activation = Activation::kNone;
  static void fields(auto& self, auto&& visit) {
    visit("eps", self.eps);
    visit("has_bias", self.has_bias);
    visit("swiglu", self.swiglu);
    visit("activation", self.activation);
  }
  // Input 2 + i is weight i, input 2 + layers() + i its bias.
  int layers(size_t num_inputs) const { return static_cast<int>(num_inputs - 2) / (has_bias ? 2 : 1); }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
};

}  // namespace ops

// Inference only: it has no gradient, which the ops it stands for have. No biases at all, or one for each
// weight.
std::vector<Value> norm_linear(Value x, Value norm, const std::vector<Value>& weights,
                               const std::vector<Value>& biases, ops::NormLinear options);

}  // namespace genesis
