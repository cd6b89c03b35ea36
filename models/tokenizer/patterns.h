// How known families of models cut text into words ahead of byte-pair merges, and what a tokenizer.json says of such a model.
#pragma once

#include <cstdint>
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
  bool adds_space = false;  // to what ByteLevel gets, where none stands in front
};

// gpt2, llama3 or qwen2; anything else is an expression.
Pattern pattern_named(const std::string& name);

// Parts of a tokenizer.json: bytes as characters; a token beside the merges; all but the model; the model without tokens and merges.
nlohmann::ordered_json byte_level_json(bool use_regex, bool add_prefix_space = false);
nlohmann::ordered_json added_token_json(int64_t id, const std::string& content, bool special);
nlohmann::ordered_json pipeline_json(nlohmann::ordered_json added_tokens, const Pattern& pattern,
                                     nlohmann::ordered_json post_processor);
nlohmann::ordered_json bpe_json(bool ignore_merges);

}  // namespace genesis::text
