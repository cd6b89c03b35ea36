// Nodes that make a state's values of its parts, for a state that is trained in parts or of which a rank keeps a shard
// (schema/graph/state_storage.h). They do in a graph what StateFormat::decode() does with bytes. (Of quantised states
// passes/precision/read_quantized does it.)
#pragma once

#include <functional>

#include "schema/graph/graph.h"
#include "schema/graph/state_storage.h"

namespace genesis::passes {

// The state's values in `dtype`. `part(i)` gives part i of the format as a value of the graph; it is called only for the parts
// that `dtype` needs.
Value value_of_parts(const StateFormat& format, const std::function<Value(size_t)>& part, DType dtype);

}  // namespace genesis::passes
