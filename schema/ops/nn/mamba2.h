// The selective state space of Mamba2: attention without a softmax, whose memory of a text is one matrix per head (Dao and Gu,
// "Transformers are SSMs: generalized models and efficient algorithms through structured state space duality", 2024).
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

// Inputs: c, b [batch, time, groups, state_size], x [batch, time, heads, head_size], decay and step [batch, time, heads], state
// [batch, heads, state_size, head_size] (optional: zeros), all f32 or all f64. Each group serves as many heads, which follow each
// other. For each token, with the state S and row vectors c, b, x:
//
//   S <- decay S + step b^T x;  y = c S
//
// Outputs: y [batch, time, heads, head_size], and the states before and after the last token. A decay of 0 begins a new text. A token
// with decay 1 and step 0 is padding: it changes nothing, and is not the last token. The outputs of states have no gradients. With
// the dt and A of the publication, the decay is exp(dt A) and the step is dt; the skip D x is not part of the op.
struct Mamba2 : NoAttributes {
  static constexpr OpInfo info{
      .name = "mamba2",
      .doc =
          "The selective state space of Mamba2, of c, b [batch, time, groups, n], x [batch, time, heads, p], "
          "decay, step [batch, time, heads] and a state S [batch, heads, n, p] (zeros if absent): for each "
          "token S <- decay S + step b^T x; y = c S. Outputs y and the states before and after the last "
          "token that is no padding (decay 1 and step 0).",
      .inputs = {5, 6},
      .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
  void grad(GradientContext& g) const;
};

// Inputs: those of mamba2 with the state, and dy. Outputs: the gradients of the first six.
struct Mamba2Grad : NoAttributes {
  static constexpr OpInfo info{.name = "mamba2_grad",
                               .doc = "The gradients of mamba2 for its six inputs, from these and dy.",
                               .inputs = {7, 7},
                               .precision = Precision::kF32};
  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
};

}  // namespace ops

struct Mamba2Result {
  Value y;              // [batch, time, heads, head_size], in the dtype of x
  Value before, after;  // [batch, heads, state_size, head_size]: the states before and after the last token
};

// Computes ops::Mamba2 in f32 at least. `state` may be empty.
Mamba2Result mamba2(Value c, Value b, Value x, Value decay, Value step, Value state = {});

}  // namespace genesis
