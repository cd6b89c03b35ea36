// Stores weights of a bf16 training step as halves (bf16_halves_format of schema/encoding/state_format.h): products read the
// upper half, a bf16, and the optimizer writes both. So no step casts weights, and memory holds no second copy of them. Weights
// that a concatenation of casts joins (merge_projections) are stored one behind the other in one pair of states, and the
// concatenation is the upper one.
//
// The states of a model belong to all its entry points, so these weights are chosen for the whole model. executor/compile does
// so when it makes the memory, and does not depend on the format. passes/precision/use_weight_halves rewrites entry points for
// such memory.
#pragma once

#include <map>
#include <vector>

#include "schema/graph/state_storage.h"

namespace genesis::passes {

// --- questions about a graph, for find_stored_weights() and use_weight_halves() (passes/precision/passes.h)

bool casts_to_bf16(const Graph& graph, const Node& node);
// Returns the states whose casts to bf16 the node concatenates along the first axis, -1 for other inputs. Empty for other
// nodes.
std::vector<int32_t> joined_states(const Graph& graph, const Node& node);
// Returns an update for each state that could be split and that the graph updates: the adam_update that computes the state's
// new value from its old one by itself and whose results no other node reads; null if there is none.
std::map<int32_t, const Node*> adam_updates(const Graph& graph);

}  // namespace genesis::passes
