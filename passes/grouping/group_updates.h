// adam_update nodes that share lr, step and scale -> one of all their parameters. A model has hundreds of
// parameters, most of them small: on a GPU, starting a kernel for each costs more than the work. Only updates
// with a `scale` (clipping by the norm of all gradients) are grouped: their gradients are alive together
// anyway, while others are done with one by one and would make the peak of memory higher.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph group_updates(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
