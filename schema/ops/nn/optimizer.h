// Optimizer updates as ops, with PyTorch's formulas, so that a whole training step is one graph. Results may overwrite their
// inputs. Momentum and second moments are f32 (f64 for an f64 parameter) for every dtype of the parameter; arithmetic is f32 too.
// `lr` (f32 or f64) and `step` (i64 or i32, 1 in the first run) are scalars computed in the graph. `scale` (f32 or f64 scalar)
// multiplies the gradient first, which folds in clipping and unscaling. With `skip_nonfinite`, a scale that is not finite leaves
// parameter and state bit for bit unchanged: a step whose gradients overflowed is skipped without involving the host.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

// Names how an optimizer keeps the moments of a parameter: as numbers, or as codes of 8 bits (schema/core/moment_codes.h).
enum class MomentFormat : uint8_t { kF32, k8bit };

}  // namespace genesis

template <>
struct genesis::EnumNames<genesis::MomentFormat> {
  static constexpr std::string_view names[] = {"f32", "8bit"};
};

namespace genesis {

struct SgdOptions {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, skip_nonfinite = false;
};

namespace ops {

inline constexpr InPlace kLionInPlace[] = {{0, 0}, {1, 2}};

// parameters..., gradients..., lr, step, [momentum buffers... if momentum is not 0], [scale] -> parameters..., [buffers...]: updates
// one parameter, or as many as `parameters` says.
struct SgdUpdate : SgdOptions {
  static constexpr OpInfo info{.name = "sgd_update",
                               .doc =
                                   "One step of SGD with momentum, dampening, weight decay, Nesterov for "
                                   "each of `parameters` parameters.",
                               .inputs = {4, kVariadic},
                               .precision = Precision::kF32};
  bool has_scale = false;
  int64_t parameters = 1;
  static void fields(auto& self, auto&& visit) {
    visit("momentum", self.momentum);
    visit("dampening", self.dampening);
    visit("weight_decay", self.weight_decay);
    visit("nesterov", self.nesterov);
    visit("has_scale", self.has_scale);
    visit("skip_nonfinite", self.skip_nonfinite);
    visit("parameters", self.parameters);
  }

  // Positions among the inputs; parameter k is input k, and its result output k.
  int gradient(int64_t parameter) const { return static_cast<int>(parameters + parameter); }
  int lr() const { return static_cast<int>(2 * parameters); }
  int step() const { return lr() + 1; }
  int buffer(int64_t parameter) const { return static_cast<int>(lr() + 2 + parameter); }

  std::vector<TensorType> infer(Types in) const;
  std::vector<InPlace> in_place(Types, Types) const;
};

// lr, step, [scale], parameters..., gradients..., m..., v... -> parameters..., m..., v...: updates one parameter, or many if
// launching a kernel for each would cost more than the work. If `parameters_per_half` is not empty, the parameters are f32 stored
// as halves (schema/core/halves.h), one after the other: uppers..., lowers... replace the parameters among inputs and outputs,
// and halves i hold the next parameters_per_half[i] parameters.
//
// With `moments` k8bit m and v are codes (schema/core/moment_codes.h), u8 of the parameter's shape, and the scales of their blocks
// follow: m scales..., v scales..., among inputs and outputs, f32 of moment_scales_shape(). The parameters must be such that
// can_have_moment_codes().
struct AdamUpdate {
  static constexpr OpInfo info{
      .name = "adam_update",
      .doc =
          "One step of Adam, or of AdamW when `decoupled`, for each parameter. If `parameters_per_half` is "
          "not empty, halves i, a bf16 and an i16, hold the next parameters_per_half[i] f32 parameters. With "
          "`moments` 8bit m and v are u8 codes, and the scales of their blocks are further states.",
      .inputs = {6, kVariadic},
      .precision = Precision::kF32,
      .version = 2};
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool decoupled = true, has_scale = false, skip_nonfinite = false;
  std::vector<double> weight_decays;         // one per parameter
  std::vector<int64_t> parameters_per_half;  // one per pair of halves; empty: one tensor per parameter
  MomentFormat moments = MomentFormat::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("eps", self.eps);
    visit("decoupled", self.decoupled);
    visit("has_scale", self.has_scale);
    visit("skip_nonfinite", self.skip_nonfinite);
    visit("weight_decays", self.weight_decays);
    visit("parameters_per_half", self.parameters_per_half);
    visit("moments", self.moments);
  }
  bool operator==(const AdamUpdate&) const = default;

  bool is_halved() const { return !parameters_per_half.empty(); }
  bool has_codes() const { return moments == MomentFormat::k8bit; }
  bool is_single() const { return num_parameters() == 1 && !is_halved(); }
  int num_parameters() const { return static_cast<int>(weight_decays.size()); }
  // Returns the number of holders of parameters: tensors, or pairs of halves.
  int num_holders() const {
    return is_halved() ? static_cast<int>(parameters_per_half.size()) : num_parameters();
  }
  int64_t held_by(int holder) const {
    return is_halved() ? parameters_per_half[static_cast<size_t>(holder)] : 1;
  }

  // Positions among the inputs; for halves, holder() is the upper half.
  int holder(int i) const { return 2 + has_scale + i; }
  int lower(int i) const { return holder(num_holders() + i); }
  int gradient(int parameter) const { return holder((is_halved() ? 2 : 1) * num_holders() + parameter); }
  int m(int parameter) const { return gradient(num_parameters() + parameter); }
  int v(int parameter) const { return m(num_parameters() + parameter); }
  int m_scales(int parameter) const { return v(num_parameters() + parameter); }
  int v_scales(int parameter) const { return m_scales(num_parameters() + parameter); }
  int num_inputs() const { return has_codes() ? v_scales(num_parameters()) : v(num_parameters()); }
  // Returns the output with the new value of an input.
  int output_of(int input) const { return input - holder(0) - (input < gradient(0) ? 0 : num_parameters()); }

  std::vector<TensorType> infer(Types in) const;
  std::vector<InPlace> in_place(Types, Types) const { return in_place(); }
  std::vector<InPlace> in_place() const;  // everything except the gradients is written where it was read
};

// Returns whether moments of a parameter of this type can be codes: it is not f64, its sizes are known, and kMomentBlock divides its
// number of elements, or, with more than two axes, those of each row of the first axis.
bool can_have_moment_codes(const TensorType& parameter);
// Returns the shape of the scales of a parameter's moments: as many of its last axes as it takes to have whole blocks become one
// axis of blocks, the axes before these stay. So f32[8,24,32] has scales [8,3].
Shape moment_scales_shape(const Shape& parameter);

// parameter, gradient, momentum, lr, [scale] -> parameter, momentum.
struct LionUpdate {
  static constexpr OpInfo info{.name = "lion_update",
                               .doc = "One step of Lion (arXiv:2302.06675, algorithm 2).",
                               .inputs = {4, 5},
                               .precision = Precision::kF32,
                               .in_place = kLionInPlace};
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  bool skip_nonfinite = false;
  static void fields(auto& self, auto&& visit) {
    visit("beta1", self.beta1);
    visit("beta2", self.beta2);
    visit("weight_decay", self.weight_decay);
    visit("skip_nonfinite", self.skip_nonfinite);
  }
  std::vector<TensorType> infer(Types in) const;
};

struct SumSquares : NoAttributes {
  static constexpr OpInfo info{
      .name = "sum_squares",
      .doc = "The sum of the squares of all elements of all inputs, an f32 scalar (f64 if an input is f64).",
      .inputs = {1, kVariadic},
      .precision = Precision::kWide};
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const { return elements_each(in, out[0]); }
  void grad(GradientContext& g) const;
};

}  // namespace ops

struct ParameterAndMomentum {
  Value parameter, momentum;
};
// momentum_buffer is empty if options.momentum is 0. In step 1 the buffer becomes the gradient itself, as in PyTorch.
ParameterAndMomentum sgd_update(Value parameter, Value gradient, Value momentum_buffer, Value lr, Value step,
                                const SgdOptions& options, Value scale = {});

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;  // AdamW: p -= lr * weight_decay * p; otherwise Adam: gradient += weight_decay * p
  bool skip_nonfinite = false;
};
struct AdamResult {
  Value parameter, m, v;
  Value m_scales = {}, v_scales = {};  // empty if the moments are numbers
};
AdamResult adam_update(Value parameter, Value gradient, Value m, Value v, Value lr, Value step,
                       const AdamOptions& options, Value scale = {});
// The same with moments of 8 bits: u8 codes of the parameter's shape and the scales of their blocks.
struct CodedMoments {
  Value m, v, m_scales, v_scales;
};
AdamResult adam_update(Value parameter, Value gradient, const CodedMoments& moments, Value lr, Value step,
                       const AdamOptions& options, Value scale = {});

using LionOptions = ops::LionUpdate;
ParameterAndMomentum lion_update(Value parameter, Value gradient, Value momentum, Value lr,
                                 const LionOptions& options, Value scale = {});

// Returns the square root of the sum of all squares, an f32 scalar. With `one_by_one` each gradient is summed by its own node, so
// that it need not stay in memory until the last one is computed.
Value global_norm(const std::vector<Value>& gradients, bool one_by_one = false);
Value clip_scale(Value norm, double max_norm);  // min(1, max_norm / (norm + 1e-6))
Value clip_by_value(Value gradient, double limit);

}  // namespace genesis
