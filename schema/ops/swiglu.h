// The gated activation of Llama-like feed-forward layers.
#pragma once

#include "schema/graph.h"

namespace genesis {
namespace ops {

inline constexpr InPlace kSwigluInPlace[] = {{0, 0}, {0, 1}};
inline constexpr InPlace kSwigluGradInPlace[] = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}};

struct Swiglu : NoAttributes {
  static constexpr OpInfo info{.name = "swiglu",
                               .doc = "silu(gate) * up.",
                               .inputs = {2, 2},
                               .precision = Precision::kWide,
                               .in_place = kSwigluInPlace};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct SwigluGrad : NoAttributes {
  static constexpr OpInfo info{.name = "swiglu_grad",
                               .doc = "The gradients of swiglu by gate and by up, from (gate, up, dy).",
                               .inputs = {3, 3},
                               .precision = Precision::kWide,
                               .in_place = kSwigluGradInPlace};
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

// silu(gate) * up; both have one shape. Source: Shazeer, "GLU variants improve transformer", 2020.
Value swiglu(Value gate, Value up);

}  // namespace genesis
