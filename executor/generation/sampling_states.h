// Sets the states of executor/generation/entry_points.h from the texts of all rows.
#pragma once

#include <span>
#include <vector>

#include "executor/generation/sampling_options.h"
#include "executor/session.h"

namespace genesis::generation {

// A row of the cache, as sampling sees it.
struct SamplingRow {
  const std::vector<int64_t>& text;          // all tokens of the row
  int64_t token = 0, position = 0;           // the token that the next step reads, and its position
  const SamplingOptions* options = nullptr;  // options of its request; null: the row is idle
  int64_t taken = 0;                         // tokens at the end of the text that the request has chosen
  int64_t remaining = 0;                     // tokens that it can still choose
};

// Sets the states. No step may be under way. `penalties` says whether the next steps use penalties and biases.
void set_sampling_states(Session& session, std::span<const SamplingRow> rows, int64_t vocabulary,
                         bool penalties);

// Sets only the biases, for texts that have grown. No step may be under way.
void set_sampling_bias(Session& session, std::span<const SamplingRow> rows, int64_t vocabulary);

// Sets only the tokens, positions and ends, after idle rows have moved on or rows have become idle. No step may be under way.
void set_sampling_positions(Session& session, std::span<const SamplingRow> rows);

}  // namespace genesis::generation
