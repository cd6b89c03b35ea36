// How known families of models cut text into words ahead of byte-pair merges.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace genesis::text {

// What the ByteLevel of `tokenizers` cuts with, as GPT-2 did.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Pattern {
  std::string expression;
  bool byte_level = false;  // it is the one of ByteLevel, which files do not write out
  bool normalizes = false;  // NFC comes first
};

// gpt2, llama3 or qwen2; anything else is an expression.
Pattern pattern_named(const std::string& name);

// As a tokenizer.json has them: bytes as characters, and the "pre_tokenizer" that cuts by a pattern and makes them so.
nlohmann::ordered_json byte_level_json(bool use_regex);
nlohmann::ordered_json pre_tokenizer_json(const Pattern& pattern);

}  // namespace genesis::text
