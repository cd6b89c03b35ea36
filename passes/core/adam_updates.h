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

// Adds one node that does all `updates`, whose parameters are in `holders` of the new graph: each in a tensor
// of its own, or in uppers and lowers that hold parameters_per_half. Gives the node's outputs.
std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const std::vector<Value>& holders,
                                   const std::vector<int64_t>& parameters_per_half = {});

}  // namespace genesis::passes
