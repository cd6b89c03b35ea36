// The tokenizer_config.json of a new tokenizer: which token ends a text, and for conversations ChatML, its template in Jinja.
#pragma once

#include <string>
#include <vector>

namespace genesis::text {

inline constexpr const char* kEndOfText = "<|endoftext|>";
inline constexpr const char* kTurnStart = "<|im_start|>";
inline constexpr const char* kTurnEnd = "<|im_end|>";

// A tokenizer_config.json for a tokenizer with these special tokens: which of them ends a text, and the template where all
// of ChatML's are there.
std::string tokenizer_config_json(const std::vector<std::string>& special_tokens);

}  // namespace genesis::text
