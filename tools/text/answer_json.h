// What was generated, as JSON. Used by `genesis-run generate` and `chat`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/text/generate_options.h"

namespace genesis::tools {

double per_second(int64_t tokens, double seconds);  // 0 where there are none of either

// {"prompt", "text", "tokens", "stop"}, and "stop_string" and "logprobs" where there are.
nlohmann::ordered_json answer_json(const std::string& prompt, const text::GenerateResult& result);

}  // namespace genesis::tools
