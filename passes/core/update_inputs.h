// Describes the inputs of optimizer updates independently of their op.
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Positions of an elementwise update's inputs. Output 0 is the new parameter, output 1 + k the new moment k.
struct UpdateInputs {
  size_t parameter = 0, gradient = 0;
  // Moments, then the scales of moments that are codes; empty if the node is no such update, or keeps no moments.
  std::vector<size_t> moments;
};
UpdateInputs update_inputs(const Node& node);

}  // namespace genesis::passes
