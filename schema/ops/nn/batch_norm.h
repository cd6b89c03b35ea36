// Batch norm with the statistics of the batch, and its gradient. The author's function batch_norm() is in schema/ops/nn/norm.h.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// x [batch, channels, ...], weight [channels], bias [channels] and, with `has_addend`, an addend like x -> y like x, and the mean
// and the variance (over all numbers of a channel, without correction) [channels], in f32 at least. Weight and bias have x's
// dtype or f32. With `channels_last`, x is [batch, ..., channels]. A pass introduces addend and relu before autodiff.
struct BatchNorm {
  static constexpr OpInfo info{.name = "batch_norm",
                               .doc =
                                   "(x - mean) / sqrt(var + `eps`) * weight + bias (+ addend, then `relu`) "
                                   "with the mean and variance of "
                                   "each channel of the batch, which are results, too.",
                               .inputs = {3, 4},
                               .precision = Precision::kWide};
  double eps = 1e-5;
  bool relu = false, has_addend = false, channels_last = false;
  static void fields(auto& self, auto&& visit) {
    visit("eps", self.eps);
    visit("relu", self.relu);
    visit("has_addend", self.has_addend);
    visit("channels_last", self.channels_last);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

// x, dy, mean, var, weight and, with `relu`, what shows where y was positive: y itself with `has_addend`, else the bias ->
// dx, dweight and dbias (f32 at least) and, with both attributes, the gradient of the addend. With `two_gradients`, which needs relu
// and addend, a last input like dy is added to it, rounded as an addition of its own would be. With `with_output`, which needs relu
// and no addend, the last result is y, computed again, so that the forward pass need not keep it. Passes set the last two.
struct BatchNormGrad {
  static constexpr OpInfo info{
      .name = "batch_norm_grad",
      .doc =
          "The gradients of batch_norm: dx, dweight, dbias and that of an addend; `two_gradients`: dy is a "
          "sum; `with_output`: y again.",
      .inputs = {5, 7},
      .precision = Precision::kWide};
  double eps = 1e-5;
  bool relu = false, has_addend = false, channels_last = false;
  bool two_gradients = false, with_output = false;
  static void fields(auto& self, auto&& visit) {
    BatchNorm::fields(self, visit);
    visit("two_gradients", self.two_gradients);
    visit("with_output", self.with_output);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const;
};

}  // namespace ops
}  // namespace genesis
