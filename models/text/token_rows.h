// Checks for tokens of a tokenizer that the model has no embedding row for. Many fine-tuned models add a token for
// padding and leave the embedding as it was; a text without this token is fine.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/tokenizer/tokenizer.h"

namespace genesis::text {

// Warns of added tokens without a row in a model of `rows` tokens, which was read from `file`. `whose`: the
// tokenizer, for messages. Throws Error if ordinary tokens have no row, since the tokenizer is another model's then.
void check_token_rows(const Tokenizer& tokenizer, int64_t rows, const std::string& whose,
                      const std::string& file);

// Throws Error naming the first of `tokens`, which were read from data, that the model has no row for.
void check_have_rows(std::span<const int64_t> tokens, int64_t rows, const Tokenizer& tokenizer);

}  // namespace genesis::text
