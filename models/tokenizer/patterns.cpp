#include "models/tokenizer/patterns.h"

#include <utility>

namespace genesis::text {

using nlohmann::ordered_json;

namespace {

// Words are alike in both; Qwen2 cuts numbers into digits, Llama 3 into threes.
std::string words_and_numbers(const std::string& number) {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + number +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

}  // namespace

Pattern pattern_named(const std::string& name) {
  if (name == "gpt2") return {.expression = std::string(kGpt2Pattern), .byte_level = true};
  if (name == "llama3") return {.expression = words_and_numbers(R"(\p{N}{1,3})")};
  if (name == "qwen2") return {.expression = words_and_numbers(R"(\p{N})"), .normalizes = true};
  return {.expression = name};
}

ordered_json byte_level_json(bool use_regex, bool add_prefix_space) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

ordered_json pre_tokenizer_json(const Pattern& pattern) {
  if (pattern.byte_level) return byte_level_json(true, pattern.adds_space);
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", pattern.expression}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  return {{"type", "Sequence"},
          {"pretokenizers", ordered_json::array({split, byte_level_json(false, pattern.adds_space)})}};
}

ordered_json added_token_json(int64_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

ordered_json pipeline_json(ordered_json added_tokens, const Pattern& pattern, ordered_json post_processor) {
  const ordered_json normalizer = pattern.normalizes ? ordered_json{{"type", "NFC"}} : ordered_json();
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added_tokens)},
          {"normalizer", normalizer},
          {"pre_tokenizer", pre_tokenizer_json(pattern)},
          {"post_processor", std::move(post_processor)},
          {"decoder", byte_level_json(true)}};
}

ordered_json bpe_json(bool ignore_merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", ignore_merges}};
}

}  // namespace genesis::text
