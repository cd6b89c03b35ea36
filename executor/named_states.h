// The values of all states of a model by name, caches excepted: what a Session gives, takes, saves and loads.
#pragma once

#include "executor/named_tensors.h"
#include "schema/graph/model.h"

namespace genesis {

// Whether a file keeps the state: a cache is filled anew by every text.
inline bool is_kept(const State& state) { return state.role != StateRole::kCache; }

// What a model's states start from; this is where a saved model has its values.
NamedTensors initial_values(const Model& model);

// Throws one Error that lists every state that is missing, unknown or of another type.
void check_fit(const Model& model, const NamedTensors& values);

}  // namespace genesis
