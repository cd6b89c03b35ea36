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
constexpr size_t kMaxCharactersMap = 16 << 20;

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

std::string characters_map_in(const json& part, const std::string& where) {
  const std::string name = where + ".precompiled_charsmap";
  auto bytes = base64_bytes(text_of(member(part, "precompiled_charsmap"), name, kMaxCharactersMap));
  if (!bytes) fail("'{}' is not base64", name);
  return *std::move(bytes);
}

// Reads the parts of BertNormalizer as steps.
std::vector<NormalizerStep> bert_normalizer(const json& part, const std::string& where) {
  using Kind = NormalizerStep::Kind;
  const auto flag = [&](const char* name, bool otherwise) {
    return bool_of(member(part, name), otherwise, where + "." + name);
  };
  std::vector<NormalizerStep> steps;
  if (flag("clean_text", true)) steps.push_back({.kind = Kind::kCleanText});
  if (flag("handle_chinese_chars", true)) steps.push_back({.kind = Kind::kIdeographs});
  const bool lowercase = flag("lowercase", true);
  if (flag("strip_accents", lowercase)) {
    steps.push_back({.form = NormalizationForm::kD});
    steps.push_back({.kind = Kind::kNonspacingMarks});
  }
  if (lowercase) steps.push_back({.kind = Kind::kLowercase});
  return steps;
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

NormalizerStep replace_in(const json& part, const std::string& where) {
  const FilePattern pattern = pattern_in(part, where);
  return {.kind = NormalizerStep::Kind::kReplace,
          .pattern = pattern.text,
          .is_expression = pattern.is_expression,
          .content = text_of(member(part, "content"), where + ".content", kMaxContent)};
}

NormalizerStep strip_in(const json& part, const std::string& where) {
  return {.kind = NormalizerStep::Kind::kStrip,
          .left = bool_of(member(part, "strip_left"), true, where + ".strip_left"),
          .right = bool_of(member(part, "strip_right"), true, where + ".strip_right")};
}

// Returns the steps of one part; nothing if it is not supported.
std::optional<std::vector<NormalizerStep>> normalizer_step(const json& part, const std::string& type,
                                                           const std::string& where) {
  using Kind = NormalizerStep::Kind;
  using Steps = std::vector<NormalizerStep>;
  if (const auto form = form_named(type)) return Steps{{.form = *form}};
  if (type == "Lowercase") return Steps{{.kind = Kind::kLowercase}};
  if (type == "ByteLevel") return Steps{{.kind = Kind::kByteLevel}};
  if (type == "StripAccents") return Steps{{.kind = Kind::kMarks}};
  if (type == "Nmt") return Steps{{.kind = Kind::kNmt}};
  if (type == "BertNormalizer") return bert_normalizer(part, where);
  if (type == "Precompiled")
    return Steps{{.kind = Kind::kCharactersMap, .content = characters_map_in(part, where)}};
  if (type == "Strip") return Steps{strip_in(part, where)};
  if (type == "Prepend")
    return Steps{{.kind = Kind::kPrepend,
                  .content = text_of(member(part, "prepend"), where + ".prepend", kMaxContent)}};
  if (type == "Replace") return Steps{replace_in(part, where)};
  return std::nullopt;
}

PreTokenizerStep split_in(const json& part, const std::string& where) {
  const FilePattern pattern = pattern_in(part, where);
  return {
      .kind = pattern.is_expression ? PreTokenizerStep::Kind::kExpression : PreTokenizerStep::Kind::kLiteral,
      .pattern = pattern.text,
      .behavior = behavior_of(member(part, "behavior"), where),
      .invert = bool_of(member(part, "invert"), false, where + ".invert")};
}

// Reads Metaspace. In older files, "add_prefix_space" takes the place of "prepend_scheme".
PreTokenizerStep metaspace_in(const json& part, const std::string& where) {
  const bool adds = bool_of(member(part, "add_prefix_space"), true, where + ".add_prefix_space");
  PrependScheme scheme = adds ? PrependScheme::kAlways : PrependScheme::kNever;
  if (const json& value = member(part, "prepend_scheme"); !value.is_null()) {
    const std::string name = text_of(value, where + ".prepend_scheme");
    if (name != "always" && name != "first" && name != "never")
      fail("'{}.prepend_scheme' is '{}', expected always, first or never", where, name.substr(0, 40));
    scheme = name == "always"  ? PrependScheme::kAlways
             : name == "first" ? PrependScheme::kFirst
                               : PrependScheme::kNever;
  }
  if (!adds && scheme != PrependScheme::kNever)
    fail("'{}' has the prepend_scheme always or first, but its add_prefix_space is false", where);
  return metaspace_step(scheme, bool_of(member(part, "split"), true, where + ".split"),
                        character_in(member(part, "replacement"), where + ".replacement"));
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
  if (type == "Metaspace") return {metaspace_in(part, where)};
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
  if (type == "Metaspace") {
    const PreTokenizerStep step = metaspace_in(part, where);
    return DecoderStep{.kind = Kind::kMetaspace,
                       .pattern = step.pattern,
                       .start = step.prepend == PrependScheme::kNever ? 0u : 1u};
  }
  if (type == "WordPiece")
    return DecoderStep{.kind = Kind::kWordPiece,
                       .pattern = text_of(member(part, "prefix"), where + ".prefix", kMaxContent),
                       .cleanup = bool_of(member(part, "cleanup"), true, where + ".cleanup")};
  if (type == "CTC")
    return DecoderStep{.kind = Kind::kCtc,
                       .pattern = text_of(member(part, "pad_token"), where + ".pad_token", kMaxContent),
                       .content = text_of(member(part, "word_delimiter_token"),
                                          where + ".word_delimiter_token", kMaxContent),
                       .cleanup = bool_of(member(part, "cleanup"), true, where + ".cleanup")};
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
      "not supported: {}{}; supported are BPE, Unigram, WordPiece and WordLevel with the steps that "
      "docs/tour.md "
      "names",
      fmt::join(refused_, ", "), more_ == 0 ? "" : fmt::format(" and {} more", more_));
}

std::vector<NormalizerStep> normalizer_steps(const json& part, Refusals& refusals) {
  std::vector<NormalizerStep> steps;
  size_t count = 0;
  for_each_step(part, "normalizer", "normalizers", count,
                [&](const json& one, const std::string& type, const std::string& where) {
                  const auto step = normalizer_step(one, type, where);
                  if (!step) return refusals.add(where + " " + type);
                  try_steps<Normalizer>(*step, where, refusals);
                  steps.insert(steps.end(), step->begin(), step->end());
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
