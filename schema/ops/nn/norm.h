// Normalization with PyTorch's formulas. Statistics are f32 (f64 for f64) and are recomputed from x in the backward pass: the row
// is read there anyway, so saving them would only add memory traffic.
#pragma once

#include <algorithm>

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

// Inputs: x, then weight and bias if has_weight and has_bias are set, both with the shape of x's last `num_axes` axes.
struct LayerNorm {
  static constexpr OpInfo info{
      .name = "layer_norm",
      .doc = "(x - mean) / sqrt(var + eps) * weight + bias over the last `num_axes` axes.",
      .inputs = {1, 3},
      .precision = Precision::kWide,
      .in_place = kOverFirst};
  double eps = 1e-5;
  int64_t num_axes = 1;
  bool has_weight = false, has_bias = false;
  static void fields(auto& self, auto&& visit) {
    visit("eps", self.eps);
    visit("num_axes", self.num_axes);
    visit("has_weight", self.has_weight);
    visit("has_bias", self.has_bias);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
  void grad(GradientContext& g) const;
};

struct RmsNorm {
  static constexpr OpInfo info{.name = "rms_norm",
                               .doc = "x / sqrt(mean(x^2) + eps) * weight over the last `num_axes` axes.",
                               .inputs = {1, 2},
                               .precision = Precision::kWide,
                               .in_place = kOverFirst};
  double eps = 1e-6;
  int64_t num_axes = 1;
  bool has_weight = false;
  static void fields(auto& self, auto&& visit) {
    visit("eps", self.eps);
    visit("num_axes", self.num_axes);
    visit("has_weight", self.has_weight);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
  void grad(GradientContext& g) const;
};

// x, dy, [weight], [bias], [residual] -> dx, then dweight and dbias if wanted, in f32 (f64 for f64), then the result of the norm
// itself if `with_output` is set, so that it need not be kept for the backward pass. `residual`, typed like x, is added to dx: it
// is the gradient that reaches x past the norm. It must be another value than x and dy, because dx may overwrite these. `bias` is
// needed for the output only.
struct LayerNormGrad {
  static constexpr OpInfo info{.name = "layer_norm_grad",
                               .doc =
                                   "The gradients of layer_norm: dx and, where wanted, dweight and dbias; "
                                   "`with_output` adds the result of layer_norm itself.",
                               .inputs = {2, 5},
                               .precision = Precision::kWide,
                               .in_place = kOverEither};
  double eps = 1e-5;
  int64_t num_axes = 1;
  bool has_weight = false, want_weight = false, want_bias = false, has_residual = false;
  bool has_bias = false, with_output = false;
  static void fields(auto& self, auto&& visit) {
    visit("eps", self.eps);
    visit("num_axes", self.num_axes);
    visit("has_weight", self.has_weight);
    visit("want_weight", self.want_weight);
    visit("want_bias", self.want_bias);
    visit("has_residual", self.has_residual);
    visit("has_bias", self.has_bias);
    visit("with_output", self.with_output);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return std::max(row_length(in[0]), row_count(in[0])); }
};

struct RmsNormGrad {
  static constexpr OpInfo info{.name = "rms_norm_grad",
                               .doc =
                                   "The gradients of rms_norm: dx and, where wanted, dweight; "
                                   "`with_output` adds the result of rms_norm itself.",
                               .inputs = {2, 4},
                               .precision = Precision::kWide,
                               .in_place = kOverEither};
  double eps = 1e-6;
  int64_t num_axes = 1;
  bool has_weight = false, want_weight = false, has_residual = false, with_output = false;
  static void fields(auto& self, auto&& visit) {
    visit("eps", self.eps);
    visit("num_axes", self.num_axes);
    visit("has_weight", self.has_weight);
    visit("want_weight", self.want_weight);
    visit("has_residual", self.has_residual);
    visit("with_output", self.with_output);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types) const { return std::max(row_length(in[0]), row_count(in[0])); }
};

}  // namespace ops

// Normalize over the last rank(weight) axes (rank(bias) without a weight), or over the last axis without either. num_axes 0: as
// many as weight or bias have, otherwise 1.
Value layer_norm(Value x, Value weight = {}, Value bias = {}, double eps = 1e-5, int64_t num_axes = 0);
Value rms_norm(Value x, Value weight = {}, double eps = 1e-6, int64_t num_axes = 0);

struct BatchNormResult {
  Value y, running_mean, running_var;  // the new running statistics; unchanged if not training
};
// x [N, C, ...]; weight, bias [C], may be empty. Running statistics move by `momentum`; the running variance is the unbiased one.
// Training is the op of schema/ops/nn/batch_norm.h; evaluation is lowered at once to elementwise ops, which fuse. Both compute in
// f32 at least.
BatchNormResult batch_norm(Value x, Value weight, Value bias, Value running_mean, Value running_var,
                           bool training, double momentum = 0.1, double eps = 1e-5);

}  // namespace genesis
