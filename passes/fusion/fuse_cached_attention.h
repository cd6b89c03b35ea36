#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// attention(rope(q, p), dynamic_update_slice(k_cache, rope(k, p), start), dynamic_update_slice(v_cache, v,
// start), key_length = start + 1) of one token becomes one cached_attention, with rope or without, where p is
// start: one number, or one for each row of the batch. A decoding step is a chain of tiny kernels, and each of them costs more to start than to run.
Graph fuse_cached_attention(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
