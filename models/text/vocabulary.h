// How many tokens a language model knows, and how many positions.
#pragma once

#include <optional>

#include "schema/graph/graph.h"
#include "schema/graph/model.h"

namespace genesis::text {

// The last size of the output "logits" of an entry point: [rows, vocabulary] of prefill and decode, [batch, seq, vocabulary]
// of forward. Throws Error where there is none of that rank.
int64_t vocabulary_of(const Graph& entry, int rank);

// How many positions a model with a table of them knows, as GPT-2 has: n_positions of its config. Empty where it says none.
std::optional<int64_t> positions_of(const Model& model);

// Throws Error with a hint to --seq where `seq` tokens are more than the positions that the model knows. Before anything runs.
void check_positions(const Model& model, int64_t seq);

}  // namespace genesis::text
