// How attention's operands come out of matrix products: rows of features that are cut into heads, and perhaps
// rotated. Used by the passes that let q, k and v stay where one product left them (pack_attention,
// merge_projections).
#pragma once

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/rope.h"

namespace genesis::passes {

// One operand of attention: rope(reshape(rows)), or without rope.
struct HeadOperand {
  ValueId rows;             // [..., heads * head_size]
  Matched<ops::Rope> rope;  // none: it is not rotated
  const Node* reshape = nullptr;
};

// q, k and v of an attention by [batch, time, heads, head_size] over one time, which nobody else reads. q and
// k are rotated alike, or neither is.
struct HeadOperands {
  HeadOperand q, k, v;
};
std::optional<HeadOperands> match_head_operands(const Graph& graph, const Uses& uses, const Node& attention);

// The attention of `rows` [..., (query_heads + 2 key_heads) * head_size], in the new graph, that hold q, k
// and v side by side.
Value attend_packed(Rewriter& rewriter, const Node& attention, const HeadOperands& operands, Value rows);

}  // namespace genesis::passes
