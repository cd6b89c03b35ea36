// Casts of weights to low precision -> one cast_group, and concatenations of such casts with it. A training
// step in low precision casts every weight once; on a GPU, starting a kernel for each costs as much as the
// smaller half of the work. All of them are made before the first is read, which costs memory only where a
// weight is not read by the backward pass: most are, and live from the forward pass to it anyway. Under a
// memory budget the group is made only where the plan still fits.
#pragma once

#include "passes/pass.h"

namespace genesis::passes {

Graph group_casts(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
