// The vocabulary size and the number of positions of a language model.
#pragma once

#include <optional>

#include "executor/generation/entry_points.h"
#include "schema/graph/model.h"

namespace genesis::text {

using generation::vocabulary_of;

// Returns the number of positions of a model with a table of positions, such as GPT-2: n_positions of its config. Empty for other
// models.
std::optional<int64_t> positions_of(const Model& model);

// Throws Error with a hint to --seq if `seq` tokens exceed the positions of the model. Called before anything runs.
void check_positions(const Model& model, int64_t seq);

}  // namespace genesis::text
