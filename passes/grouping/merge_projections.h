// Layers that share x and meet again in one op become one product each way: q, k and v, whose heads attention
// reads side by side, and gate and up of swiglu. One product of a training step instead of three or two fills
// a GPU better, dx needs no sum, and what stood between them (rotations, bias gradients) is one step too.
//
// Only where the weights are casts of states: they are written once per step anyway, so writing them one
// behind the other costs nothing. States keep their names and shapes; a gradient of theirs is a range of rows
// of the gradient of the whole, which is a view.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// To run between casting to low precision and autodiff.
Graph merge_projections(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
