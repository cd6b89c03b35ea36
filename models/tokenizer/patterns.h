// How known families of models cut text into words ahead of byte-pair merges, and how a tokenizer.json says it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/pre_tokenizer_step.h"

namespace genesis::text {

// What the ByteLevel of `tokenizers` cuts with, as GPT-2 did.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Pattern {
  std::vector<PreTokenizerStep> steps;  // the last one is kByteLevel
  bool normalizes = false;              // NFC comes first
};

// gpt2, llama3, qwen2 or smollm (GPT-2's words, where each digit is a word); anything else is an expression.
Pattern pattern_named(const std::string& name);
// A text is cut by `steps`, in their order; bytes as characters follow.
Pattern pattern_of(std::vector<PreTokenizerStep> steps);

// Parts of a tokenizer.json: bytes as characters; a token beside the merges; how words are cut; all but the model; the model
// without tokens and merges.
nlohmann::ordered_json byte_level_json(bool use_regex, bool add_prefix_space = false);
nlohmann::ordered_json added_token_json(int64_t id, const std::string& content, bool special);
nlohmann::ordered_json pre_tokenizer_json(const std::vector<PreTokenizerStep>& steps);
nlohmann::ordered_json pipeline_json(nlohmann::ordered_json added_tokens, const Pattern& pattern,
                                     nlohmann::ordered_json post_processor);
nlohmann::ordered_json bpe_json(bool ignore_merges);

}  // namespace genesis::text
