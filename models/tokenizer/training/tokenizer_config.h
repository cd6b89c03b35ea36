// Writes the tokenizer_config.json of a new tokenizer: the token that ends a text, and for conversations the Jinja template of
// ChatML.
#pragma once

#include <string>
#include <vector>

namespace genesis::text {

inline constexpr const char* kEndOfText = "<|endoftext|>";
inline constexpr const char* kTurnStart = "<|im_start|>";
inline constexpr const char* kTurnEnd = "<|im_end|>";

// Returns a tokenizer_config.json for a tokenizer with these special tokens. It names the token that ends a text, and has the
// chat template if all tokens of ChatML exist.
std::string tokenizer_config_json(const std::vector<std::string>& special_tokens);

}  // namespace genesis::text
