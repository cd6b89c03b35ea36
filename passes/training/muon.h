// Muon: orthogonalized momentum (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon; settings and formulas as in
// torch.optim.Muon). For a matrix with gradient g, all products in f32 or in bf16:
//
//   m += (1 - momentum) (g - m);  u = nesterov ? g + momentum (m - g) : m
//   X = u / |u|;  ns_steps times: X = a X + (b G + c G^2) X, G = X X^T  with (a, b, c) = (3.4445, -4.7750, 2.0315)
//   w = (1 - lr weight_decay) w - lr adjustment X
//
// It is made of ordinary ops, so it runs wherever products run.
#pragma once

#include <set>

#include "passes/training/optimizers.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

struct MuonResult {
  Value parameter, momentum;
};

// `parameter`, `gradient` and `momentum` are [rows, columns], the momentum in f32; `lr` is an f32 scalar. `scale`, an f32
// scalar, multiplies the gradient and may be empty. `products` is the dtype of the Newton-Schulz iteration. Throws an Error if
// the parameter is no matrix.
MuonResult muon_update(Value parameter, Value gradient, Value momentum, Value lr, const optim::Muon& muon,
                       double weight_decay, DType products, Value scale = {});

// Returns the states of `loss` that do not map activations to activations: tables that an embedding looks up, and heads whose
// product is part of the loss. Muon leaves them to AdamW.
std::set<int32_t> tables_and_heads(const Graph& loss);
// Returns the tables among them.
std::set<int32_t> tables(const Graph& loss);

}  // namespace genesis::passes
