// Bodies: entry points that loops (schema/ops/tensor/loop.h) of other entry points run. verify() checks that they exist and fit; code that
// copies entry points out of a model keeps their bodies.
//
// A body's inputs are the number of the step, i64[], the carried values and the values that it reads. Its outputs are the condition for
// another step, bool[], the carried values after the step, of the same types, and a row of each value that the loop collects. It updates no
// state and draws no random numbers.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis {

// Returns the names of the entry points that loops of the graph run, each once, in the order of the nodes.
std::vector<std::string> bodies_of(const Graph& graph);
// Returns these names and those of all bodies that they run, directly or through other bodies. Throws Error if a body does not exist.
std::set<std::string> with_bodies(const Model& model, std::set<std::string> names);
// Throws Error, naming the node, if a body that the entry point runs does not exist, has other types than the node, runs itself, updates
// a state, draws random numbers, or reads a state that the entry point updates.
void check_bodies(const Graph& graph);

}  // namespace genesis
