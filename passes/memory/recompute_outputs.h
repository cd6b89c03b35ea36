// What swiglu or a norm gives is read twice: by the next layer, and in the backward pass for that layer's
// weight gradient. Its own gradient reads what it was made from in any case (gate and up, or x) and makes the
// output again for one more write, so that nobody keeps it from the forward pass on: half as much memory
// again as gate and up, as much as x of a norm. Readers in the backward pass then wait for that gradient.
//
// Where ranks share the rows of a norm (passes/distribution/sequence_shards.h), those readers want the rows of all ranks: they
// are gathered again too, beside products that do not wait for them.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph recompute_outputs(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
