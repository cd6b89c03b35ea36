#include "models/tokenizer/patterns.h"

#include <utility>

namespace genesis::text {

using nlohmann::ordered_json;

namespace {

// Returns the expression of Qwen2 and Llama 3. Words are the same in both; Qwen2 splits numbers into digits, Llama 3 into groups
// of three.
std::string words_and_numbers(const std::string& number) {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + number +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

const char* name_of(SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      return "Removed";
    case SplitBehavior::kMergedWithPrevious:
      return "MergedWithPrevious";
    case SplitBehavior::kMergedWithNext:
      return "MergedWithNext";
    case SplitBehavior::kContiguous:
      return "Contiguous";
    case SplitBehavior::kIsolated:
      break;
  }
  return "Isolated";
}

ordered_json split_json(const PreTokenizerStep& step) {
  const bool is_literal = step.kind == PreTokenizerStep::Kind::kLiteral;
  return {{"type", "Split"},
          {"pattern", {{is_literal ? "String" : "Regex", step.pattern}}},
          {"behavior", name_of(step.behavior)},
          {"invert", step.invert}};
}

ordered_json metaspace_json(const PreTokenizerStep& step) {
  const char* scheme = step.prepend == PrependScheme::kAlways  ? "always"
                       : step.prepend == PrependScheme::kFirst ? "first"
                                                               : "never";
  return {{"type", "Metaspace"},
          {"replacement", step.pattern},
          {"prepend_scheme", scheme},
          {"split", step.splits}};
}

ordered_json step_json(const PreTokenizerStep& step) {
  using Kind = PreTokenizerStep::Kind;
  switch (step.kind) {
    case Kind::kDigits:
      return {{"type", "Digits"}, {"individual_digits", step.behavior == SplitBehavior::kIsolated}};
    case Kind::kPunctuation:
      return {{"type", "Punctuation"}, {"behavior", name_of(step.behavior)}};
    case Kind::kWords:
      return {{"type", "Whitespace"}};
    case Kind::kWhiteSpace:
      return {{"type", "WhitespaceSplit"}};
    case Kind::kByteLevel:
      return byte_level_json(step.use_regex, step.add_prefix_space);
    case Kind::kMetaspace:
      return metaspace_json(step);
    case Kind::kExpression:
    case Kind::kLiteral:
      break;
  }
  return split_json(step);
}

}  // namespace

Pattern pattern_named(const std::string& name) {
  if (name == "gpt2") return {.steps = {byte_level_step(true)}};
  if (name == "smollm") return {.steps = {digits_step(true), byte_level_step(true)}};
  if (name == "llama3") return pattern_of({split_step(words_and_numbers(R"(\p{N}{1,3})"))});
  if (name == "qwen2") {
    Pattern pattern = pattern_of({split_step(words_and_numbers(R"(\p{N})"))});
    pattern.normalizes = true;
    return pattern;
  }
  return pattern_of({split_step(name)});
}

Pattern pattern_of(std::vector<PreTokenizerStep> steps) {
  steps.push_back(byte_level_step(false));
  return {.steps = std::move(steps)};
}

ordered_json byte_level_json(bool use_regex, bool add_prefix_space) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

ordered_json pre_tokenizer_json(const std::vector<PreTokenizerStep>& steps) {
  if (steps.size() == 1) return step_json(steps[0]);
  ordered_json parts = ordered_json::array();
  for (const PreTokenizerStep& step : steps) parts.push_back(step_json(step));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
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
          {"pre_tokenizer", pre_tokenizer_json(pattern.steps)},
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
