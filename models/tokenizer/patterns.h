// The pre-tokenizers of known families of models, which split text into words before byte-pair merges, and their form in a
// tokenizer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/pre_tokenizer_step.h"

namespace genesis::text {

// The expression of ByteLevel in `tokenizers`, which is that of GPT-2.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Pattern {
  std::vector<PreTokenizerStep> steps;  // the last one is kByteLevel
  bool normalizes = false;              // NFC comes before the steps
};

// Returns the pattern named gpt2, llama3, qwen2 or smollm (GPT-2's words, with each digit a word). Any other name is an
// expression.
Pattern pattern_named(const std::string& name);
// Returns a pattern that splits by `steps`, in order, and then writes bytes in the byte alphabet.
Pattern pattern_of(std::vector<PreTokenizerStep> steps);

// These return parts of a tokenizer.json: the ByteLevel step; an added token; the pre-tokenizer; everything but the model; the
// model without tokens and merges.
nlohmann::ordered_json byte_level_json(bool use_regex, bool add_prefix_space = false);
nlohmann::ordered_json added_token_json(int64_t id, const std::string& content, bool special);
nlohmann::ordered_json pre_tokenizer_json(const std::vector<PreTokenizerStep>& steps);
nlohmann::ordered_json pipeline_json(nlohmann::ordered_json added_tokens, const Pattern& pattern,
                                     nlohmann::ordered_json post_processor);
nlohmann::ordered_json bpe_json(bool ignore_merges);

}  // namespace genesis::text
