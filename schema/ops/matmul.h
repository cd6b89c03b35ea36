// Matrix products. Authors and gradient rules use the functions, kernels the structs. Operands of a product
// share one dtype: the functions promote, the structs insist.
#pragma once

#include "schema/graph.h"

namespace genesis {

enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu };

template <>
struct EnumNames<Activation> {
  static constexpr std::string_view names[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
};

namespace ops {

struct Matmul {
  static constexpr OpInfo info{
      .name = "matmul",
      .doc =
          "a [..., m, k] times b [..., k, n]; leading axes broadcast, `transpose_a` and "
          "`transpose_b` swap an operand's last two axes first.",
      .inputs = {2, 2},
      .precision = Precision::kMatmul};
  bool transpose_a = false, transpose_b = false;
  static void fields(auto& self, auto&& visit) {
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Linear {
  static constexpr OpInfo info{
      .name = "linear",
      .doc =
          "`activation`(x weight^T + bias): x [..., in], weight [out, in], bias [out] or "
          "none.",
      .inputs = {2, 3},
      .precision = Precision::kMatmul};
  Activation activation = Activation::kNone;
  static void fields(auto& self, auto&& visit) { visit("activation", self.activation); }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// [..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast; 1-d operands as in torch.matmul.
// `transpose_*` swaps an operand's last two axes before the product, at no cost.
Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);

// x [..., in_features], weight [out_features, in_features], bias [out_features] -> activation(x weight^T +
// bias).
Value linear(Value x, Value weight, Value bias = {}, Activation activation = Activation::kNone);

// torch.einsum for any number of operands, with '...'; lowered at once to permute, reshape, matmul, mul and
// sum.
Value einsum(const std::string& equation, const std::vector<Value>& operands);

}  // namespace genesis
