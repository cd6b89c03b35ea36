// Recognizes mixtures of experts as graphs have them, for fuse_experts: the chain of ops that chooses experts, and the products of
// experts with their weighted sum. Nothing here changes a graph.
#pragma once

#include <optional>
#include <vector>

#include "passes/core/match.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {

// The nodes of a router. `factors` makes the factors of the chosen experts.
struct RouterNodes {
  ops::Route op;
  std::vector<ValueId> inputs;  // logits [, bias]
  ValueId factors;
  const Node* sort = nullptr;
};
// Finds the router whose last choice is `topk`: scores of logits [+ a bias], limited to the best groups or not, topk, factors and
// sort_groups.
std::optional<RouterNodes> find_router(const Graph& graph, const Uses& uses, const Node& topk);

// The nodes of experts. `op` and `inputs` are those of ops::Experts without an addend.
struct ExpertNodes {
  ops::Experts op;
  std::vector<ValueId> inputs;
  std::vector<const Node*> nodes;
};
// Finds the experts whose weighted sum is the product `sum`: grouped products with biases or without, a gated activation, and the
// product of factors and results.
std::optional<ExpertNodes> find_experts(const Graph& graph, const Uses& uses, const Node& sum);

// --- sizes and reshapes, for both

inline Dim last_size(const TensorType& type) { return type.shape[type.shape.rank() - 1]; }

// Returns the product of the axes before the last.
inline Dim leading_size(const TensorType& type) {
  Dim rows = 1;
  for (int axis = 0; axis + 1 < type.shape.rank(); ++axis) rows = rows * type.shape[axis];
  return rows;
}

inline bool is_last_axis(const TensorType& type, int64_t axis) {
  return axis == -1 || axis == type.shape.rank() - 1;
}

inline ValueId behind_reshapes(const Graph& graph, ValueId value) {
  while (const auto reshape = match<ops::Reshape>(graph, value)) value = reshape.input(0);
  return value;
}

// Matches the node that makes a value which only one node reads, behind reshapes of the same kind.
template <class Op>
Matched<Op> match_reshaped(const Graph& graph, const Uses& uses, ValueId value) {
  while (const auto reshape = match_sole<ops::Reshape>(graph, uses, value)) value = reshape.input(0);
  return match_sole<Op>(graph, uses, value);
}

}  // namespace genesis::passes
