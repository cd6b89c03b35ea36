// The gated delta rule: attention without a softmax, whose memory of a text is one matrix per head (Yang, Kautz, Hatamizadeh, "Gated
// delta networks: improving Mamba2 with delta rule", 2024). Layers of Qwen3-Next and Qwen3.5.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// Inputs: q, k [batch, time, heads, key_size], v [batch, time, heads, value_size], decay and beta [batch, time, heads], state [batch,
// heads, key_size, value_size] (optional: zeros), all f32 or all f64. For each token, with the state S and row vectors q, k, v:
//
//   S <- decay S;  u = beta (v - k S);  S <- S + k^T u;  y = q S
//
// Outputs: y [batch, time, heads, value_size], and the states before and after the last token. A decay of 0 begins a new text. A
// token with decay 1 and beta 0 is padding: it changes nothing, and is not the last token. The outputs of states have no gradients.
struct GatedDelta : NoAttributes {
  static constexpr OpInfo info{
      .name = "gated_delta",
      .doc =
          "The gated delta rule of q, k [batch, time, heads, k], v [batch, time, heads, v], decay, beta "
          "[batch, "
          "time, heads] and a state S [batch, heads, k, v] (zeros if absent): for each token S <- decay S; S "
          "<- S "
          "+ k^T beta (v - k S); y = q S. Outputs y and the states before and after the last "
          "token that is no padding (decay 1 and beta 0).",
      .inputs = {5, 6},
      .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
  void grad(GradientContext& g) const;
};

// Inputs: those of gated_delta with the state, and dy. Outputs: the gradients of the first six.
struct GatedDeltaGrad : NoAttributes {
  static constexpr OpInfo info{.name = "gated_delta_grad",
                               .doc = "The gradients of gated_delta for its six inputs, from these and dy.",
                               .inputs = {7, 7},
                               .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
};

}  // namespace ops

struct GatedDeltaResult {
  Value y;              // [batch, time, heads, value_size], in the dtype of v
  Value before, after;  // [batch, heads, key_size, value_size]: the states before and after the last token
};

// Computes ops::GatedDelta in f32 at least. `state` may be empty.
GatedDeltaResult gated_delta(Value q, Value k, Value v, Value decay, Value beta, Value state = {});

}  // namespace genesis
