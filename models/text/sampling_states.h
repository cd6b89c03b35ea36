// The states of models/text/sampling_entries.h, as the texts of all rows say them. Used by models/text/decoding.cpp.
#pragma once

#include <span>
#include <vector>

#include "executor/session.h"
#include "models/text/generate_options.h"

namespace genesis::text {

// A row of the cache.
struct SamplingRow {
  const std::vector<int64_t>& tokens;        // its text
  int64_t cached = 0;                        // of them, those that the cache holds
  const GenerateOptions* options = nullptr;  // of the answer that it is at; null: it rests
  int64_t taken = 0;                         // tokens at the text's end that the answer has chosen
  int64_t remaining = 0;                     // that it can still choose
};

// Only while no step is under way. Rows that rest stand at the last token that the cache holds. `penalties`: whether
// the steps to come ask for them.
void set_sampling_states(Session& session, std::span<const SamplingRow> rows, int64_t vocabulary,
                         bool penalties);

}  // namespace genesis::text
