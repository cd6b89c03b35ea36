// attention(q, k, v) of the parts of one product -> attention of that product as it is. Cutting GPT-2's
// c_attn in three writes every feature once more, and its gradient puts the three together again; attention
// reads them where they stand at no cost.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph pack_attention(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
