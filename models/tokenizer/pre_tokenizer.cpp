#include "models/tokenizer/pre_tokenizer.h"

#include "models/tokenizer/patterns.h"
#include "models/tokenizer/unicode/unicode.h"
#include "schema/core/error.h"

namespace genesis::text {
namespace {

constexpr size_t kMaxSteps = 64;  // each step is a pass over the text

int number_class(uint32_t code) { return is_number(code); }
int punctuation_class(uint32_t code) { return is_punctuation(code); }
int white_space_class(uint32_t code) { return is_white_space(code); }
int word_class(uint32_t code) { return is_word_character(code) ? 1 : is_white_space(code) ? 0 : 2; }

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps) {
  using Kind = PreTokenizerStep::Kind;
  if (steps.size() > kMaxSteps) fail("a pre-tokenizer of {} steps, the limit is {}", steps.size(), kMaxSteps);
  for (const PreTokenizerStep& step : steps) {
    Cut cut{.matcher = CharacterMatcher{}, .behavior = step.behavior, .invert = step.invert};
    switch (step.kind) {
      case Kind::kExpression:
        cut.matcher = SplitExpression(step.pattern);
        break;
      case Kind::kLiteral:
        cut.matcher = Literal(step.pattern);
        break;
      case Kind::kDigits:
        cut.matcher = CharacterMatcher{number_class};
        break;
      case Kind::kPunctuation:
        cut.matcher = CharacterMatcher{punctuation_class};
        break;
      case Kind::kWords:
        cut = {CharacterMatcher{word_class, true}, SplitBehavior::kRemoved, true};
        break;
      case Kind::kWhiteSpace:
        cut = {CharacterMatcher{white_space_class}, SplitBehavior::kRemoved, false};
        break;
      case Kind::kByteLevel:
        add_byte_level(step, &step == &steps.back());
        continue;
      case Kind::kMetaspace:
        add_metaspace(step);
        continue;
    }
    steps_.emplace_back(std::move(cut));
  }
}

void PreTokenizer::add_byte_level(const PreTokenizerStep& step, bool is_last) {
  if (step.add_prefix_space) steps_.emplace_back(Write{Write::Kind::kSpaceInFront});
  if (step.use_regex) steps_.emplace_back(Cut{.matcher = SplitExpression(std::string(kGpt2Pattern))});
  if (is_last)
    is_byte_level_ = true;
  else
    steps_.emplace_back(Write{Write::Kind::kByteAlphabet});
}

void PreTokenizer::add_metaspace(const PreTokenizerStep& step) {
  steps_.emplace_back(Write{Write::Kind::kMetaspace, step.pattern, step.prepend});
  if (step.splits)
    steps_.emplace_back(Cut{.matcher = Literal(step.pattern), .behavior = SplitBehavior::kMergedWithNext});
}

std::string_view PreTokenizer::written(const Write& step, std::string_view text, size_t origin,
                                       std::string& storage) {
  if (step.kind == Write::Kind::kByteAlphabet) return storage = alphabet_text(text);
  if (step.kind == Write::Kind::kSpaceInFront) {
    if (text.starts_with(' ')) return text;
    storage = " ";
    return storage += text;
  }
  const bool prepends =
      step.prepend == PrependScheme::kAlways || (step.prepend == PrependScheme::kFirst && origin > 0);
  storage.clear();
  if (prepends && !text.starts_with(' ') && !text.starts_with(step.character)) storage = step.character;
  for (const char byte : text)
    if (byte == ' ')
      storage += step.character;
    else
      storage += byte;
  return storage;
}

}  // namespace genesis::text
