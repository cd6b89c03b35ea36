// Finds the weights of products x weight^T, which quantization encodes.
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Returns the weights [out, in] that the node multiplies x with; none if it is no such product or they are quantized already.
std::vector<ValueId> weights_of(const Node& node);

// Returns the state behind a value, possibly through a cast; -1 if there is none.
int32_t state_behind(const Graph& graph, ValueId id);

}  // namespace genesis::passes
