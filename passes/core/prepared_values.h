// Values of an inference graph that depend on states alone, such as the factors of a batch norm and weights in another layout.
// executor/compile splits a graph before it is planned; a session computes these values once, and again after a state has changed.
#pragma once

#include <optional>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::passes {

struct PreparedValues {
  Graph main;                    // reads the values as constants
  Graph values;                  // computes them: output "0", "1", ...
  std::vector<int32_t> tensors;  // the tensors of the model that hold the outputs of `values`, in order
};

// Adds the tensors to `model`, which the graph belongs to, without values: the caller says where these are. Returns nothing if there
// is no such value. States that the graph updates do not count, and views of states and constants stay where they are.
std::optional<PreparedValues> split_prepared_values(const Graph& graph, Model& model);

}  // namespace genesis::passes
