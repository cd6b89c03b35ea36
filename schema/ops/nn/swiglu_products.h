// Products with swiglu beside them, as training steps have them: a pass makes these ops of linear or matmul
// and swiglu or its gradient, so that a kernel can do both while a tile is in registers.
#pragma once

#include "schema/ops/nn/matmul.h"

namespace genesis {
namespace ops {

struct LinearWithSwiglu : NoAttributes {
  static constexpr OpInfo info{.name = "linear_with_swiglu",
                               .doc =
                                   "x weight^T [..., 2 n], gate and up side by side, and swiglu of it [..., "
                                   "n]: x [..., in], weight [2 n, in].",
                               .inputs = {2, 2},
                               .precision = Precision::kMatmul};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
};

struct MatmulSwigluGrad {
  static constexpr InPlace kOverGateAndUp[] = {{.output = 0, .input = 2}};
  static constexpr OpInfo info{
      .name = "matmul_swiglu_grad",
      .doc =
          "swiglu_grad of gate and up side by side [..., 2 n], the third input, where dy is the product of "
          "the others: [..., k] and [k, n]. `with_output` adds what swiglu gives.",
      .inputs = {3, 3},
      .precision = Precision::kMatmul,
      .in_place = kOverGateAndUp};
  bool with_output = false;
  static void fields(auto& self, auto&& visit) { visit("with_output", self.with_output); }
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
};

}  // namespace ops

// Both are made behind autodiff and have no gradients, which the ops they stand for have.

// {x weight^T, packed_swiglu of it}
std::vector<Value> linear_with_swiglu(Value x, Value weight);

// {the gradient of packed_swiglu by `gate_and_up`, and its output `with_output`} for dy = a b.
std::vector<Value> matmul_swiglu_grad(Value a, Value b, Value gate_and_up, bool with_output = false);

}  // namespace genesis
