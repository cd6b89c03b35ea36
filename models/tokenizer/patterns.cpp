#include "models/tokenizer/patterns.h"

namespace genesis::text {
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

nlohmann::ordered_json byte_level_json(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

nlohmann::ordered_json pre_tokenizer_json(const Pattern& pattern) {
  using nlohmann::ordered_json;
  if (pattern.byte_level) return byte_level_json(true);
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", pattern.expression}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level_json(false)})}};
}

}  // namespace genesis::text
