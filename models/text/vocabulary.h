// How many tokens a language model knows.
#pragma once

#include "schema/graph/graph.h"

namespace genesis::text {

// The last size of the output "logits" of an entry point: [rows, vocabulary] of prefill and decode, [batch, seq, vocabulary]
// of forward. Throws Error where there is none of that rank.
int64_t vocabulary_of(const Graph& entry, int rank);

}  // namespace genesis::text
