// What swiglu gives is read twice: by the next layer, and in the backward pass for that layer's weight
// gradient. Keeping it from one to the other takes half as much memory again as gate and up, which swiglu's
// own gradient needs in any case. That gradient has both in registers and makes the output again for one more
// write, into the memory of the gradient that came; readers in the backward pass then wait for it.
#pragma once

#include "passes/pass.h"

namespace genesis::passes {

Graph recompute_swiglu(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
