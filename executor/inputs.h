// Checks the tensors a caller gives against the inputs an entry point declares: names, dtypes, shapes, and the sizes they give to
// symbols. Every mistake is an Error that names the input and the expected value.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "executor/named_tensors.h"
#include "schema/graph/graph.h"

namespace genesis {

// Returns the sizes of all symbols in `graph`'s inputs.
Bindings bind_inputs(const Graph& graph, const NamedTensors& inputs);

// Does the same from types alone, to plan before there is data.
Bindings bind_input_types(const Graph& graph, const std::map<std::string, TensorType>& types);

bool has_input(const Graph& graph, std::string_view name);

}  // namespace genesis
