// Writes a learned vocabulary as a tokenizer.json, like the library `tokenizers`.
#pragma once

#include <string>
#include <vector>

#include "models/tokenizer/patterns.h"
#include "models/tokenizer/training/bpe_trainer.h"

namespace genesis::text {

// Returns one line of UTF-8. `special_tokens` must be tokens of `learned`.
std::string tokenizer_json(const LearnedBpe& learned, const Pattern& pattern,
                           const std::vector<std::string>& special_tokens);

}  // namespace genesis::text
