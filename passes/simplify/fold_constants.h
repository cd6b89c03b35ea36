// Constant folding: nodes whose inputs are all known are computed now, once, by the target's own kernels
// (Target::evaluate), and become tensors of the model: tables of positions, masks, scales, weights that are
// only reshaped or cast. Results above PassContext::max_folded_bytes stay as they are, and so do expand, full
// and arange, which a reader makes cheaper than memory delivers them.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph fold_constants(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
