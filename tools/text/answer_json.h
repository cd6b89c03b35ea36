// Describes generated text as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/text/prompts.h"

namespace genesis::tools {

double per_second(int64_t tokens, double seconds);  // 0 if either is 0

// Returns {"prompt", "text", "tokens", "stop"}, with "prompt_ids", "stop_string", "logprobs" and the numbers of drafts_json() if
// there are any.
nlohmann::ordered_json answer_json(const text::Prompt& prompt, const text::GenerateResult& result);

// Return how many tokens a run chose, and how many of the drafted ones were accepted; nothing if none was drafted:
// {"steps", "drafted", "accepted", "tokens_per_step"}, and ", 2.71 tokens a step, 45 of 60 drafted tokens accepted".
nlohmann::ordered_json drafts_json(const text::GenerateResult& result);
std::string drafts_text(int64_t tokens, int64_t steps, int64_t drafted, int64_t accepted);

}  // namespace genesis::tools
