// Weights of a bf16 training step that are kept as halves (bf16_halves_format of schema/graph/state_storage.h):
// the upper half is the bf16 that products read, and the optimizer writes both. So no step casts weights, and
// no memory holds a second copy of them. Weights that a concatenation of casts joins (merge_projections) lie
// one behind the other in one pair of states, and the concatenation is that state.
//
// The states of a model belong to all its entry points, so which weights are kept so is a question about the
// model, asked where the memory is made (executor/compile), which does not depend on the storage format.
// passes/precision/split_weights rewrites entry points for such memory.
#pragma once

#include <map>
#include <vector>

#include "schema/graph/state_storage.h"

namespace genesis::passes {

// What finding such weights (find_stored_weights of passes/precision/passes.h) and rewriting for them ask of a graph.

bool casts_to_bf16(const Graph& graph, const Node& node);
// Of a concatenation along the first axis: the states whose casts to bf16 it joins, -1 for what is none.
// Empty for other nodes.
std::vector<int32_t> joined_states(const Graph& graph, const Node& node);
// By state that could be split and that the graph updates: the adam_update that alone makes its new value out
// of its old one and whose results nobody else reads; null: something else does.
std::map<int32_t, const Node*> adam_updates(const Graph& graph);

}  // namespace genesis::passes
