// Matrix products. Authors and gradient rules use the functions, kernels the structs. The operands of a product have one dtype:
// the functions promote them, the structs require it.
#pragma once

#include "schema/encoding/weight_format.h"
#include "schema/graph/graph.h"

namespace genesis {

enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu };

template <>
struct EnumNames<Activation> {
  static constexpr std::string_view names[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
};

namespace ops {

// The epilogue of a product (in the sense of CUTLASS and cuBLASLt).
enum class MatmulEpilogue : uint8_t { kNone, kBiasGrad, kSwigluGrad };
// The prologue and the epilogue of a linear: computations on x before its products, and on their results.
enum class LinearPrologue : uint8_t { kNone, kRmsNorm };
enum class LinearEpilogue : uint8_t { kNone, kSwiglu, kWithSwiglu };

}  // namespace ops

template <>
struct EnumNames<ops::MatmulEpilogue> {
  static constexpr std::string_view names[] = {"none", "bias_grad", "swiglu_grad"};
};
template <>
struct EnumNames<ops::LinearPrologue> {
  static constexpr std::string_view names[] = {"none", "rms_norm"};
};
template <>
struct EnumNames<ops::LinearEpilogue> {
  static constexpr std::string_view names[] = {"none", "swiglu", "with_swiglu"};
};

namespace ops {

// Passes introduce the epilogues and `wide` after autodiff, so these forms have no gradients.
//   bias_grad    (a, b): two matrices. The second result [m] has the sums of a's rows: dbias beside dweight = dy^T x.
//   swiglu_grad  (a, b, gate_and_up [..., m, 2 n]): b is [k, n]. The product is dy of swiglu(gate_and_up); the results
//                are the gradient with respect to gate_and_up and, with `with_output`, swiglu(gate_and_up).
//   wide         With 16-bit operands the result and the addend are f32: a sum of products that is rounded once.
struct Matmul {
  static constexpr InPlace kOverThirdInput[] = {{.output = 0, .input = 2}};
  static constexpr OpInfo info{
      .name = "matmul",
      .doc =
          "a [..., m, k] times b [..., k, n], plus an addend [..., m, n] or none; leading axes of a and b "
          "broadcast, `transpose_a` and `transpose_b` swap an operand's last two axes first. `epilogue`: "
          "bias_grad adds a result, the sums of a's rows; swiglu_grad takes the product as dy and gives the "
          "gradient of swiglu for a third input, gate and up side by side; `with_output` adds the result of "
          "swiglu. `wide`: an f32 result of 16-bit operands.",
      .inputs = {2, 3},
      .precision = Precision::kMatmul,
      .in_place = kOverThirdInput};
  bool transpose_a = false, transpose_b = false;
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  bool with_output = false, wide = false;
  static void fields(auto& self, auto&& visit) {
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
    visit("epilogue", self.epilogue);
    visit("with_output", self.with_output);
    visit("wide", self.wide);
  }
  bool is_one_product() const { return epilogue == MatmulEpilogue::kNone; }
  // Returns true for one product whose result has the operands' dtype.
  bool is_plain() const { return is_one_product() && !wide; }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

// x, [norm [in]], `weights` weights [out_i, in], [as many biases [out_i]], [addend]. Result i is activation(x weight_i^T +
// bias_i). Passes introduce the forms beyond one weight, a bias and an activation:
//   prologue rms_norm     x is rms_norm(x, norm) with `eps`; at most 8 weights. No gradient.
//   epilogue swiglu       Two weights, gate and up, give one result: silu(x gate^T + b) * (x up^T + b).
//   epilogue with_swiglu  One weight holds gate and up side by side; gives its product, and swiglu of that. No gradient.
//   wide                  With 16-bit operands the result and an addend are f32: logits from which a token is chosen are sums of
//                         products without rounding to 16 bits. Requires one weight, no activation and no epilogue.
//   weight_format         q8, q4 or q4m: the weights' quants, i8 [out_i, in] or u8 [out_i, in/2], are followed by as many
//                         scales, f16 or i16 [out_i, in/32] (schema/encoding/weight_format.h). x is f32, bf16 or f16. There is
//                         no gradient.
struct Linear {
  static constexpr OpInfo info{
      .name = "linear",
      .doc =
          "`activation`(x weight^T + bias) for each of `weights` weights. Inputs: x [..., in]; a norm [in] "
          "with the `prologue` rms_norm; the weights [out, in]; one bias [out] for each weight, or none; "
          "with `has_addend`, which requires one weight and no activation, an addend [..., out]. `epilogue`: "
          "swiglu gives silu(gate) * up of two weights; with_swiglu adds swiglu of a result that holds gate "
          "and up side by side. `weight_format` q8, q4 or q4m: the quants of the weights, then their scales, "
          "instead of the weights (see dequantize). `wide`: one product of 16-bit operands with an f32 "
          "result.",
      .inputs = {2, kVariadic},
      .precision = Precision::kMatmul};
  static constexpr int64_t kMaxNormedWeights = 8;
  Activation activation = Activation::kNone;
  bool has_addend = false;
  int64_t weights = 1;
  LinearPrologue prologue = LinearPrologue::kNone;
  double eps = 1e-6;
  LinearEpilogue epilogue = LinearEpilogue::kNone;
  WeightFormat weight_format = WeightFormat::kPlain;
  bool wide = false;
  static void fields(auto& self, auto&& visit) {
    visit("activation", self.activation);
    visit("has_addend", self.has_addend);
    visit("weights", self.weights);
    visit("prologue", self.prologue);
    visit("eps", self.eps);
    visit("epilogue", self.epilogue);
    visit("weight_format", self.weight_format);
    visit("wide", self.wide);
  }
  // Returns true for one weight without prologue and epilogue.
  bool is_one_product() const {
    return weights == 1 && prologue == LinearPrologue::kNone && epilogue == LinearEpilogue::kNone;
  }
  // Returns true for one product with an unquantized weight.
  bool is_unquantized_product() const { return is_one_product() && !is_quantized(); }
  // Returns true for one product with an unquantized weight whose result has the operands' dtype.
  bool is_plain() const { return is_unquantized_product() && !wide; }
  bool is_quantized() const { return weight_format != WeightFormat::kPlain; }
  bool has_norm() const { return prologue != LinearPrologue::kNone; }
  // Positions of inputs: weight, scale and bias i are i after the first; the norm is input 1, an addend the last input.
  size_t first_weight() const { return has_norm() ? 2 : 1; }
  size_t first_scale() const {
    return first_weight() + static_cast<size_t>(weights);
  }  // scales of quantized weights
  size_t first_bias() const { return first_scale() + (is_quantized() ? static_cast<size_t>(weights) : 0); }
  bool has_bias(size_t num_inputs) const { return num_inputs > first_bias() + has_addend; }
  std::vector<InPlace> in_place(Types in, Types out) const;
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const { return row_length(in[0]); }
  void grad(GradientContext& g) const;

 private:
  void check_counts(Types in) const;
  void check_epilogue(Types in) const;
  TensorType weight_type(Types in, size_t weight) const;
  TensorType result(Types in, size_t weight) const;
};

}  // namespace ops

// [..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast; 1-d operands as in torch.matmul. `transpose_*` swaps an
// operand's last two axes before the product, at no cost. `addend` has the shape of the result and is added to it (torch.addmm,
// torch.baddbmm).
Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false, Value addend = {});

// x [..., in_features], weight [out_features, in_features], bias [out_features] -> activation(x weight^T + bias), plus `addend`
// [..., out_features], which requires that there is no activation.
Value linear(Value x, Value weight, Value bias = {}, Activation activation = Activation::kNone,
             Value addend = {});

// Emits the op in any form; all inputs must have one dtype.
std::vector<Value> matmul(const ops::Matmul& op, const std::vector<Value>& inputs);

// Emits the op in any form; sets the number of weights and `has_addend` from the operands. There are no biases, or one per
// weight.
struct LinearOperands {
  Value x;
  std::vector<Value> weights, biases = {};
  Value norm = {}, addend = {};
  std::vector<Value> scales = {};  // one per quantized weight
};
std::vector<Value> linear(ops::Linear op, const LinearOperands& operands);

// torch.einsum for any number of operands, with '...'; lowered at once to permute, reshape, matmul, mul and sum.
Value einsum(const std::string& equation, const std::vector<Value>& operands);

}  // namespace genesis
