// The vocabulary size and the number of positions of a language model.
#pragma once

#include <optional>

#include "schema/graph/graph.h"
#include "schema/graph/model.h"

namespace genesis::text {

// Returns the last dimension of the output "logits" of an entry point: [rows, vocabulary] for prefill and decode, [batch, seq,
// vocabulary] for forward. Throws Error if there is no such output of this rank.
int64_t vocabulary_of(const Graph& entry, int rank);

// Returns the number of positions of a model with a table of positions, such as GPT-2: n_positions of its config. Empty for other
// models.
std::optional<int64_t> positions_of(const Model& model);

// Throws Error with a hint to --seq if `seq` tokens exceed the positions of the model. Called before anything runs.
void check_positions(const Model& model, int64_t seq);

}  // namespace genesis::text
