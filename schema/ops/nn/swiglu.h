// The gated activation of Llama-like feed-forward layers.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// If gate and up are one operand, only pairs of equal size apply: the gradient may overwrite the operand, the output dy.
inline constexpr InPlace kSwigluGradInPlace[] = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1},
                                                 {1, 2}, {2, 0}, {2, 1}, {2, 2}};

struct Swiglu : NoAttributes {
  static constexpr OpInfo info{.name = "swiglu",
                               .doc = "silu(gate) * up. One operand holds gate and up side by side.",
                               .inputs = {1, 2},
                               .precision = Precision::kWide,
                               .in_place = kOverEither};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct SwigluGrad {
  static constexpr OpInfo info{.name = "swiglu_grad",
                               .doc =
                                   "The gradients of swiglu for its one or two operands, from these and dy; "
                                   "`with_output` adds the result of swiglu itself.",
                               .inputs = {2, 3},
                               .precision = Precision::kWide,
                               .in_place = kSwigluGradInPlace};
  bool with_output = false;
  static void fields(auto& self, auto&& visit) { visit("with_output", self.with_output); }
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

// Computes silu(gate) * up; both have one shape. Source: Shazeer, "GLU variants improve transformer", 2020.
Value swiglu(Value gate, Value up);
// The same for gate and up side by side, as one product computes them: [..., 2 n] gives [..., n], gate first.
Value packed_swiglu(Value gate_and_up);

}  // namespace genesis
