// What a graph reads of a state that is trained in parts, or of which a rank keeps a shard (schema/graph/state_storage.h): with
// nodes, what the format's decode() does with bytes. (Quantised states are decoded by passes/precision/read_quantized.)
#pragma once

#include <functional>

#include "schema/graph/graph.h"
#include "schema/graph/state_storage.h"

namespace genesis::passes {

// The values in `dtype`. `part` gives a part of the format, of all the same values; it is asked for those that are needed.
Value value_of_parts(const StateFormat& format, const std::function<Value(size_t)>& part, DType dtype);

}  // namespace genesis::passes
