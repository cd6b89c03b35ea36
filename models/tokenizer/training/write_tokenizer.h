// A tokenizer.json as `tokenizers` writes them, for a vocabulary that was learnt.
#pragma once

#include <string>
#include <vector>

#include "models/tokenizer/patterns.h"
#include "models/tokenizer/training/bpe_trainer.h"

namespace genesis::text {

// `special_tokens` are tokens of `learned`. One line of UTF-8.
std::string tokenizer_json(const LearnedBpe& learned, const Pattern& pattern,
                           const std::vector<std::string>& special_tokens);

}  // namespace genesis::text
