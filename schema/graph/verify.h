// Checks every invariant of a graph or a model: ids in range, topological order, types equal to the inferred ones, unique names,
// valid outputs and updates, tensors with as many bytes as their types need. It runs after every pass, and validates files from
// untrusted sources: it accepts any content and never trusts an index.
#pragma once

#include "schema/graph/model.h"

namespace genesis {

// Throws Error if the values with known sizes take more than kMaxEntryBytes together.
void check_total_bytes(const Graph& graph);
void verify(const Graph& graph);  // throws Error that names the entry point and the node
void verify(const Model& model);  // also verifies every entry point

}  // namespace genesis
