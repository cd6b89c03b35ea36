// Tokens that a tokenizer has and a model has no row for: many fine-tunes add one for padding and leave the embedding as it was.
// A text without them is as good as any. Used by commands that read text for a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/tokenizer/tokenizer.h"

namespace genesis::tools {

// Warns of added tokens that a model of `rows` tokens, which was read from `file`, has no row for. `whose`: the tokenizer, for
// messages. Throws Error where ordinary tokens have none, for then the tokenizer is another model's.
void check_token_rows(const text::Tokenizer& tokenizer, int64_t rows, const std::string& whose,
                      const std::string& file);

// Throws Error naming the first of `tokens`, which were read from data, that the model has no row for.
void check_have_rows(std::span<const int64_t> tokens, int64_t rows, const text::Tokenizer& tokenizer);

}  // namespace genesis::tools
