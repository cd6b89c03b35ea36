// Attention written out as products and a softmax into the op `attention`, which keeps the scores in fast
// memory: the [batch, heads, queries, keys] tensor is never written, neither forward nor backward, and masked
// blocks of a causal attention are not computed.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// softmax(scale * q k^T [+ mask]) v, with the scale on the scores, on q, as a quotient or missing; the mask
// added as numbers, or by where(mask, scores, -inf), which is causal when the mask is tril of ones; or
// causal_softmax. q [batch, heads, queries, size], k [batch, heads, keys, size], v likewise.
Graph fuse_attention(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
