// Adds nodes that compute a state's values from its parts, for a state that is trained in parts or sharded over ranks
// (schema/graph/state_storage.h). They do in a graph what StateFormat::decode() does with bytes. For quantized states
// passes/precision/read_quantized does this.
#pragma once

#include <functional>

#include "schema/graph/graph.h"
#include "schema/graph/state_storage.h"

namespace genesis::passes {

// Returns the state's values in `dtype`. `part(i)` returns part i of the format as a value of the graph; it is called only for
// the parts that `dtype` needs.
Value value_of_parts(const StateFormat& format, const std::function<Value(size_t)>& part, DType dtype);

}  // namespace genesis::passes
