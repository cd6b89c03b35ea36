// Values that a mixture of experts computes from the tokens of all ranks along "expert", which each have a shard of the batch.
// partition_experts uses them: an expert's rank needs the tokens of all ranks that chose this expert.
#pragma once

#include <map>
#include <vector>

#include "passes/core/rewriter.h"

namespace genesis::passes {

// Computes values of the graph for the tokens of all ranks. Tokens are gathered before they are copied for each expert that they
// chose: the ranks exchange the choices and one row of each token, and repeat the sorting of pairs and the copies.
//
// The first dimension of a gathered value is that of the batch, or of all tokens, in the order of the ranks. The dimension that has
// grown is followed through the nodes that are repeated.
class GlobalRows {
 public:
  // With `ranks` = 1 all ranks have the same tokens, and every value is its own.
  GlobalRows(const Graph& graph, Rewriter& rewriter, int64_t ranks);

  // Returns the value for all tokens. Its node must have been copied or replaced; nodes are added where it is first asked for.
  Value of(ValueId id);
  // Returns `x`, an operand of the reshape for all tokens, in the shape that the result has for all tokens.
  Value reshaped(const Node& reshape, Value x) const;
  // Returns true if the value depends on inputs of the graph, and so differs between ranks.
  bool varies(ValueId id) const { return varies_[static_cast<size_t>(id.index)]; }

 private:
  bool is_repeated(ValueId id) const;
  bool is_float_value(ValueId id) const;
  int64_t numel(ValueId id) const;
  Value repeated(const Node& node, size_t output);

  const Graph& graph_;
  Rewriter& rewriter_;
  const int64_t ranks_;
  std::vector<bool> varies_;       // by value
  std::map<ValueId, Value> made_;  // by value of the graph
};

}  // namespace genesis::passes
