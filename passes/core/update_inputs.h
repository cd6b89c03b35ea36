// What updates of optimizers have in common, whatever their op.
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Inputs of an update that works element by element. Output 0 is the new parameter, 1 + k that of moment k.
struct UpdateInputs {
  size_t parameter = 0, gradient = 0;
  std::vector<size_t> moments;  // none: the node is no such update, or one that keeps nothing
};
UpdateInputs update_inputs(const Node& node);

}  // namespace genesis::passes
