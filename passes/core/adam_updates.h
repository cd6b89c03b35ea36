// Replaces several Adam updates of single parameters by one node: says which updates can share a node, and makes it.
#pragma once

#include "passes/core/rewriter.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::passes {

// Describes what updates must have in common to become one node.
struct SharedByUpdates {
  std::vector<ValueId> scalars;  // lr, step, [scale]
  ops::AdamUpdate op;            // with empty `weight_decays`

  explicit SharedByUpdates(const Node& update);
  bool operator==(const SharedByUpdates&) const = default;
};

ValueId parameter_of(const Node& update);

// Holds parameters of the new graph: each in a tensor of its own, or in groups kept in parts (schema/graph/state_storage.h).
// Parts are ordered part by part: the first part of every group, then the second part of every group.
struct ParameterHolders {
  std::vector<Value> values;
  std::vector<int64_t> held = {};  // number of parameters of each group; empty if there are no groups
};
// The operands of each update besides its parameter. `moments` has a list of all m, one of all v, and for moments that are codes
// a list of the scales of each.
struct UpdateOperands {
  std::vector<Value> gradients;
  std::vector<std::vector<Value>> moments;
};

// Adds one node that does all `updates`, with their own operands or with `operands`. Returns the node's outputs: the new
// holders, then m of all parameters, then v of all, then the scales of codes in the same order.
std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const ParameterHolders& holders);
std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const ParameterHolders& holders,
                                   const UpdateOperands& operands);
// Returns what update k of `updates` updates has in each list of results from result `first` on: its new moments if `first` is the
// number of holders, before them its parameter if every parameter is a holder and `first` is 0.
std::vector<Value> results_of_update(const std::vector<Value>& results, size_t first, size_t updates,
                                     size_t k);

}  // namespace genesis::passes
