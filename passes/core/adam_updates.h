// Updates of single parameters by Adam that become one node: which may, and how.
#pragma once

#include "passes/core/rewriter.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::passes {

// What updates that are one node have in common.
struct SharedByUpdates {
  std::vector<ValueId> scalars;  // lr, step, [scale]
  ops::AdamUpdate op;            // without parameters

  explicit SharedByUpdates(const Node& update);
  bool operator==(const SharedByUpdates&) const = default;
};

ValueId parameter_of(const Node& update);

// Where parameters of the new graph are: each in a tensor of its own, or in groups kept in parts (schema/graph/state_storage.h).
// These come part by part: the first of all groups, then the second of all groups.
struct ParameterHolders {
  std::vector<Value> values;
  std::vector<int64_t> held = {};  // by group: so many parameters; empty: there are no groups
};
// What updates read beside their parameters, by update.
struct UpdateOperands {
  std::vector<Value> gradients, m, v;
};

// Adds one node that does all `updates`, with the operands that they have or these. Gives the node's outputs: new holders, then
// m and v of all.
std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const ParameterHolders& holders);
std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const ParameterHolders& holders,
                                   const UpdateOperands& operands);

}  // namespace genesis::passes
