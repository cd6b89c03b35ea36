// Matrix products. Authors and gradient rules use the functions, kernels the structs. Operands of a product
// share one dtype: the functions promote, the structs insist.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu };

template <>
struct EnumNames<Activation> {
  static constexpr std::string_view names[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
};

namespace ops {

struct Matmul {
  static constexpr InPlace kOverAddend[] = {{.output = 0, .input = 2}};
  static constexpr OpInfo info{
      .name = "matmul",
      .doc =
          "a [..., m, k] times b [..., k, n], plus an addend [..., m, n] or none; leading axes of a and b "
          "broadcast, `transpose_a` and `transpose_b` swap an operand's last two axes first.",
      .inputs = {2, 3},
      .precision = Precision::kMatmul,
      .in_place = kOverAddend};
  bool transpose_a = false, transpose_b = false;
  static void fields(auto& self, auto&& visit) {
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
  }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

struct Linear {
  static constexpr OpInfo info{
      .name = "linear",
      .doc =
          "`activation`(x weight^T + bias): x [..., in], weight [out, in], bias [out] or none. With "
          "`has_addend`, which goes with no activation, the last input [..., out] is added.",
      .inputs = {2, 4},
      .precision = Precision::kMatmul};
  Activation activation = Activation::kNone;
  bool has_addend = false;
  static void fields(auto& self, auto&& visit) {
    visit("activation", self.activation);
    visit("has_addend", self.has_addend);
  }
  bool has_bias(size_t num_inputs) const { return num_inputs > (has_addend ? 3 : 2); }
  std::vector<InPlace> in_place(Types in, Types out) const;
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

struct LinearWeightGrad : NoAttributes {
  static constexpr OpInfo info{.name = "linear_weight_grad",
                               .doc =
                                   "The gradients of linear by weight and bias: dy^T x and the sum of dy's "
                                   "rows, from (dy [rows, out], "
                                   "x [rows, in]).",
                               .inputs = {2, 2},
                               .precision = Precision::kMatmul};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
};

struct MergedLinear {
  static constexpr OpInfo info{
      .name = "merged_linear",
      .doc =
          "Linear layers that share x, in one step: x [..., in], the weights [out_i, in], then as many "
          "biases "
          "[out_i] where `has_bias`; result i is `activation`(x weight_i^T + bias_i).",
      .inputs = {2, kVariadic},
      .precision = Precision::kMatmul};
  bool has_bias = false;
  Activation activation = Activation::kNone;
  static void fields(auto& self, auto&& visit) {
    visit("activation", self.activation);
    visit("has_bias", self.has_bias);
  }
  // Input 1 + i is weight i, input 1 + layers() + i its bias.
  int layers(size_t num_inputs) const { return static_cast<int>(num_inputs - 1) / (has_bias ? 2 : 1); }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

struct LinearSwiglu : NoAttributes {
  static constexpr OpInfo info{
      .name = "linear_swiglu",
      .doc =
          "silu(x gate^T + gate_bias) * (x up^T + up_bias): x [..., in], gate and up [out, in], then both "
          "biases [out] or none.",
      .inputs = {3, 5},
      .precision = Precision::kMatmul};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// [..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast; 1-d operands as in torch.matmul.
// `transpose_*` swaps an operand's last two axes before the product, at no cost. `addend`, of the result's
// shape, is added to it (torch.addmm, torch.baddbmm).
Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false, Value addend = {});

// x [..., in_features], weight [out_features, in_features], bias [out_features] -> activation(x weight^T +
// bias), plus `addend` [..., out_features], which goes with no activation.
Value linear(Value x, Value weight, Value bias = {}, Activation activation = Activation::kNone,
             Value addend = {});

// dy [rows, out], x [rows, in] -> dweight [out, in], dbias [out].
std::vector<Value> linear_weight_grad(Value dy, Value x);

// linear(x, weights[i], biases[i], activation) for each i in one step; no biases at all, or one for each.
std::vector<Value> merged_linear(Value x, const std::vector<Value>& weights,
                                 const std::vector<Value>& biases = {},
                                 Activation activation = Activation::kNone);

// swiglu(linear(x, gate, gate_bias), linear(x, up, up_bias)) in one step; both biases or none.
Value linear_swiglu(Value x, Value gate, Value up, Value gate_bias = {}, Value up_bias = {});

// torch.einsum for any number of operands, with '...'; lowered at once to permute, reshape, matmul, mul and
// sum.
Value einsum(const std::string& equation, const std::vector<Value>& operands);

}  // namespace genesis
