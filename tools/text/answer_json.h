// Describes generated text as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/generation/generate_options.h"

namespace genesis::tools {

double per_second(int64_t tokens, double seconds);  // 0 if either is 0

// Returns {"prompt", "text", "tokens", "stop"}, with "stop_string" and "logprobs" if there are any.
nlohmann::ordered_json answer_json(const std::string& prompt, const text::GenerateResult& result);

}  // namespace genesis::tools
