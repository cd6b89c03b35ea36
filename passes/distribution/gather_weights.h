// Weights of which this rank has a part alone (ZeRO stage 3, passes/distribution/optimizer_shards.h): who reads one
// reads what an all_gather makes of the parts. Where a cast reads it the parts are cast and then gathered, so that
// they travel in the dtype of the computation; of halves the upper ones are what a cast to bf16 gives. Every weight has one
// gather in each dtype; passes/distribution/place_gathers says when.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph gather_weights(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
