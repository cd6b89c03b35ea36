// Casts of weights to low precision -> cast_group, and concatenations of such casts with them. A training
// step in low precision casts every weight once; on a GPU, starting a kernel for each costs as much as the
// smaller half of the work. A group has weights that are cast one after the other, about a layer of a large
// model, so that it stands close to its readers and may run beside other work. Under a memory budget groups
// are made only where the plan still fits.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph group_casts(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
