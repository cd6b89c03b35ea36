// Matches how attention's operands come out of matrix products: rows of features that are split into heads and possibly
// rotated, so that passes can let attention read q, k and v where one product wrote them.
#pragma once

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/rope.h"

namespace genesis::passes {

// One operand of attention: rope(reshape(rows)) or reshape(rows).
struct HeadOperand {
  ValueId rows;             // [..., heads * head_size]
  Matched<ops::Rope> rope;  // null if it is not rotated
  const Node* reshape = nullptr;
};

// The q, k and v of an attention in layout [batch, time, heads, head_size] with equal lengths in time, each with a single
// reader. Either both q and k are rotated, in the same way, or neither is.
struct HeadOperands {
  HeadOperand q, k, v;
};
std::optional<HeadOperands> match_head_operands(const Graph& graph, const Uses& uses, const Node& attention);

// Returns the attention over `rows` [..., (query_heads + 2 key_heads) * head_size] of the new graph, which hold q, k and v side
// by side.
Value attend_packed(Rewriter& rewriter, const Node& attention, const HeadOperands& operands, Value rows);

}  // namespace genesis::passes
