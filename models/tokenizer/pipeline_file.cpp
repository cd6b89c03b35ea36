#include "models/tokenizer/pipeline_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/tokenizer/json_members.h"
#include "models/tokenizer/pre_tokenizer.h"

namespace genesis::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxSteps = 64;      // steps of a part; each one is a pass over the text
constexpr size_t kMaxContent = 4096;  // bytes that a step inserts at one place
constexpr size_t kMaxRefusals = 12;   // refusals listed in a message

// Calls `on_step(part, type, where)` for a part that is not a Sequence, or for each part of a Sequence.
template <class OnStep>
void for_each_step(const json& part, const std::string& where, const char* list, size_t& steps,
                   const OnStep& on_step) {
  const std::string type = type_of(part, where);
  if (type == "null") return;
  if (type != "Sequence") {
    if (++steps > kMaxSteps) fail("'{}' is more than {} steps", where, kMaxSteps);
    return on_step(part, type, where);
  }
  const json& parts = list_of(member(part, list), where + "." + list);
  for (size_t i = 0; i < parts.size(); ++i)
    for_each_step(parts[i], fmt::format("{}.{}[{}]", where, list, i), list, steps, on_step);
}

SplitBehavior behavior_of(const json& value, const std::string& where) {
  static const std::pair<const char*, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  if (value.is_null()) return SplitBehavior::kIsolated;
  const std::string name = text_of(value, where + ".behavior");
  const auto found = std::ranges::find_if(kBehaviors, [&](const auto& row) { return name == row.first; });
  if (found == std::end(kBehaviors))
    fail(
        "'{}.behavior' is '{}', expected Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous",
        where, name.substr(0, 40));
  return found->second;
}

struct FilePattern {
  std::string text;
  bool is_expression = false;
};

// Reads a pattern: {"String": "..."} or {"Regex": "..."}.
FilePattern pattern_in(const json& part, const std::string& where) {
  const json& pattern = member(part, "pattern");
  if (const json& text = member(pattern, "String"); !text.is_null())
    return {text_of(text, where + ".pattern.String"), false};
  if (const json& text = member(pattern, "Regex"); !text.is_null())
    return {text_of(text, where + ".pattern.Regex"), true};
  fail("'{}.pattern' is neither {{\"String\": ...}} nor {{\"Regex\": ...}}", where);
}

// Reads a single character, as CharDelimiterSplit has it.
std::string character_in(const json& value, const std::string& where) {
  const std::string text = text_of(value, where);
  if (text.empty() || utf8::first_character(text).bytes != text.size())
    fail("'{}' is not one character", where);
  return text;
}

// Reads a number of characters; a missing one is 0.
size_t count_in(const json& value, const std::string& where) {
  if (value.is_null()) return 0;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxContent)
    fail("'{}' is not a number from 0 to {}", where, kMaxContent);
  return value.get<size_t>();
}

std::optional<NormalizationForm> form_named(const std::string& type) {
  if (type == "NFC") return NormalizationForm::kC;
  if (type == "NFD") return NormalizationForm::kD;
  if (type == "NFKC") return NormalizationForm::kKC;
  if (type == "NFKD") return NormalizationForm::kKD;
  return std::nullopt;
}

std::optional<NormalizerStep> normalizer_step(const json& part, const std::string& type,
                                              const std::string& where) {
  using Kind = NormalizerStep::Kind;
  if (const auto form = form_named(type)) return NormalizerStep{.form = *form};
  if (type == "Lowercase") return NormalizerStep{.kind = Kind::kLowercase};
  if (type == "ByteLevel") return NormalizerStep{.kind = Kind::kByteLevel};
  if (type == "Strip")
    return NormalizerStep{.kind = Kind::kStrip,
                          .left = bool_of(member(part, "strip_left"), true, where + ".strip_left"),
                          .right = bool_of(member(part, "strip_right"), true, where + ".strip_right")};
  if (type == "Prepend")
    return NormalizerStep{.kind = Kind::kPrepend,
                          .content = text_of(member(part, "prepend"), where + ".prepend", kMaxContent)};
  if (type != "Replace") return std::nullopt;
  const FilePattern pattern = pattern_in(part, where);
  return NormalizerStep{.kind = Kind::kReplace,
                        .pattern = pattern.text,
                        .is_expression = pattern.is_expression,
                        .content = text_of(member(part, "content"), where + ".content", kMaxContent)};
}

PreTokenizerStep split_in(const json& part, const std::string& where) {
  const FilePattern pattern = pattern_in(part, where);
  return {
      .kind = pattern.is_expression ? PreTokenizerStep::Kind::kExpression : PreTokenizerStep::Kind::kLiteral,
      .pattern = pattern.text,
      .behavior = behavior_of(member(part, "behavior"), where),
      .invert = bool_of(member(part, "invert"), false, where + ".invert")};
}

// Returns the steps of one part (BertPreTokenizer has two); none if it is not supported.
std::vector<PreTokenizerStep> steps_in(const json& part, const std::string& type, const std::string& where) {
  using Kind = PreTokenizerStep::Kind;
  if (type == "Split") return {split_in(part, where)};
  if (type == "Digits")
    return {digits_step(bool_of(member(part, "individual_digits"), false, where + ".individual_digits"))};
  if (type == "Punctuation") return {punctuation_step(behavior_of(member(part, "behavior"), where))};
  if (type == "Whitespace") return {{.kind = Kind::kWords}};
  if (type == "WhitespaceSplit") return {{.kind = Kind::kWhiteSpace}};
  if (type == "BertPreTokenizer") return {{.kind = Kind::kWhiteSpace}, punctuation_step()};
  if (type == "CharDelimiterSplit")
    return {{.kind = Kind::kLiteral,
             .pattern = character_in(member(part, "delimiter"), where + ".delimiter"),
             .behavior = SplitBehavior::kRemoved}};
  if (type == "ByteLevel")
    return {byte_level_step(bool_of(member(part, "use_regex"), true, where + ".use_regex"),
                            bool_of(member(part, "add_prefix_space"), false, where + ".add_prefix_space"))};
  return {};
}

std::optional<DecoderStep> decoder_step(const json& part, const std::string& type, const std::string& where) {
  using Kind = DecoderStep::Kind;
  if (type == "ByteLevel") return DecoderStep{.kind = Kind::kByteLevel};
  if (type == "ByteFallback") return DecoderStep{.kind = Kind::kByteFallback};
  if (type == "Fuse") return DecoderStep{.kind = Kind::kFuse};
  if (type == "Strip")
    return DecoderStep{.kind = Kind::kStrip,
                       .content = character_in(member(part, "content"), where + ".content"),
                       .start = count_in(member(part, "start"), where + ".start"),
                       .stop = count_in(member(part, "stop"), where + ".stop")};
  if (type != "Replace") return std::nullopt;
  const FilePattern pattern = pattern_in(part, where);
  return DecoderStep{.kind = Kind::kReplace,
                     .pattern = pattern.text,
                     .is_expression = pattern.is_expression,
                     .content = text_of(member(part, "content"), where + ".content", kMaxContent)};
}

// Constructs the class that runs these steps, to find out if they are supported.
template <class Part, class Step>
void try_steps(const std::vector<Step>& steps, const std::string& where, Refusals& refusals) {
  try {
    Part{steps};
  } catch (const Error& error) {
    refusals.add(where + ": " + error.message());
  }
}

}  // namespace

void Refusals::add(const std::string& what) {
  if (refused_.size() < kMaxRefusals)
    refused_.push_back(what);
  else
    ++more_;
}

void Refusals::check() const {
  if (refused_.empty()) return;
  fail(
      "not supported: {}{}; supported is BPE with the steps that docs/tour.md names, as GPT-2, Llama 3 and "
      "Qwen "
      "have it",
      fmt::join(refused_, ", "), more_ == 0 ? "" : fmt::format(" and {} more", more_));
}

std::vector<NormalizerStep> normalizer_steps(const json& part, Refusals& refusals) {
  std::vector<NormalizerStep> steps;
  size_t count = 0;
  for_each_step(part, "normalizer", "normalizers", count,
                [&](const json& one, const std::string& type, const std::string& where) {
                  const auto step = normalizer_step(one, type, where);
                  if (!step) return refusals.add(where + " " + type);
                  try_steps<Normalizer>(std::vector{*step}, where, refusals);
                  steps.push_back(*step);
                });
  return steps;
}

std::vector<PreTokenizerStep> pre_tokenizer_steps(const json& part, Refusals& refusals) {
  std::vector<PreTokenizerStep> steps;
  size_t count = 0;
  for_each_step(part, "pre_tokenizer", "pretokenizers", count,
                [&](const json& one, const std::string& type, const std::string& where) {
                  const std::vector<PreTokenizerStep> found = steps_in(one, type, where);
                  if (found.empty()) return refusals.add(where + " " + type);
                  try_steps<PreTokenizer>(found, where, refusals);
                  steps.insert(steps.end(), found.begin(), found.end());
                });
  return steps;
}

std::vector<DecoderStep> decoder_steps(const json& part, Refusals& refusals) {
  std::vector<DecoderStep> steps;
  size_t count = 0;
  for_each_step(part, "decoder", "decoders", count,
                [&](const json& one, const std::string& type, const std::string& where) {
                  const auto step = decoder_step(one, type, where);
                  if (!step) return refusals.add(where + " " + type);
                  try_steps<Decoder>(std::vector{*step}, where, refusals);
                  steps.push_back(*step);
                });
  return steps;
}

}  // namespace genesis::text
