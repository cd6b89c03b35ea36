// Sets the states of models/generation/sampling_entries.h from the texts of all rows.
#pragma once

#include <span>
#include <vector>

#include "executor/session.h"
#include "models/generation/generate_options.h"

namespace genesis::text {

// A row of the cache, as sampling sees it.
struct SamplingRow {
  const std::vector<int64_t>& tokens;        // text of the row
  int64_t cached = 0;                        // number of leading tokens that the cache holds
  const GenerateOptions* options = nullptr;  // options of its answer; null: the row is idle
  int64_t taken = 0;                         // tokens at the end of the text that the answer has chosen
  int64_t remaining = 0;                     // tokens that it can still choose
};

// Sets the states. No step may be under way. Idle rows are set to the last token that the cache holds. `penalties` says whether
// the next steps use penalties.
void set_sampling_states(Session& session, std::span<const SamplingRow> rows, int64_t vocabulary,
                         bool penalties);

}  // namespace genesis::text
