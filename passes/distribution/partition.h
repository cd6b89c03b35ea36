// The part of an entry point that one of the ranks along "tensor" computes.
//
// States that the context's storage keeps as shards along that axis are read and written as this rank's part. From there on
// every node whose operands are parts computes a part, as its factors say (sharding/factors.h); where results are sums over what
// is shared, an all_reduce adds up the ranks' sums. What a node or an output wants whole is gathered from all ranks.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph partition(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
