#include "models/tokenizer/normalizer.h"

#include <algorithm>
#include <utility>

#include "models/tokenizer/unicode/byte_alphabet.h"
#include "models/tokenizer/unicode/character_filters.h"
#include "schema/core/error.h"

namespace genesis::text {
namespace {

constexpr size_t kMaxSteps = 64;  // each step is a pass over the text

using Kind = NormalizerStep::Kind;

std::string_view stripped(std::string_view text, bool left, bool right) {
  if (left) text.remove_prefix(white_space_at_start(text));
  if (right) text.remove_suffix(white_space_at_end(text));
  return text;
}

// Returns `size`, or the end of the character that it would cut.
size_t whole_characters(std::string_view text, size_t size) {
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) ++size;
  return std::min(size, text.size());
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  if (steps.size() > kMaxSteps) fail("a normalizer of {} steps, the limit is {}", steps.size(), kMaxSteps);
  for (const NormalizerStep& step : steps) {
    steps_.push_back({step, nullptr, nullptr});
    if (step.kind == Kind::kReplace)
      steps_.back().replacement =
          std::make_shared<const Replacement>(step.pattern, step.is_expression, step.content);
    if (step.kind == Kind::kCharactersMap) {
      steps_.back().map = std::make_shared<const CharactersMap>(step.content);
      steps_.back().description.content.clear();
    }
  }
}

Normalizer::Result Normalizer::normalize(std::string_view text, MatchState& state,
                                         std::string& storage) const {
  std::string next;
  size_t origin = text.empty() ? 0 : utf8::first_character(text).bytes;
  for (const Step& step : steps_) {
    if (step.description.kind == Kind::kStrip) {
      const char* begin = text.data();
      text = stripped(text, step.description.left, step.description.right);
      origin -= std::min(origin, static_cast<size_t>(text.data() - begin));
      continue;
    }
    if (step.description.kind == Kind::kForm) {
      const std::string_view form = normalized(text, step.description.form, next);
      if (form.data() != next.data()) continue;
    } else if (step.description.kind == Kind::kReplace) {
      next = step.replacement->in(text, state, &origin);
    } else if (step.map) {
      next = mapped(*step.map, text, state, origin);
    } else {
      next = changed(step, text);
    }
    if (step.description.kind != Kind::kReplace && !step.map) {
      origin = moved(step, text, origin);
      state.budget.spend_bytes(next.size());
    }
    storage.swap(next);
    text = storage;
    origin = whole_characters(text, origin);
  }
  return {text, std::min(origin, text.size())};
}

// Applies the step to the leading part alone: the size of the result is the new origin.
size_t Normalizer::moved(const Step& step, std::string_view text, size_t origin) {
  if (origin == 0) return 0;
  const std::string_view lead = text.substr(0, origin);
  std::string storage;
  if (step.description.kind == Kind::kForm) return normalized(lead, step.description.form, storage).size();
  return changed(step, lead).size();
}

std::string Normalizer::changed(const Step& step, std::string_view text) {
  switch (step.description.kind) {
    case Kind::kLowercase:
      return lower_case(text);
    case Kind::kPrepend:
      return text.empty() ? "" : step.description.content + std::string(text);
    case Kind::kCleanText:
      return clean_text(text);
    case Kind::kIdeographs:
      return spaced_ideographs(text);
    case Kind::kNonspacingMarks:
      return without_nonspacing_marks(text);
    case Kind::kMarks:
      return without_marks(text);
    case Kind::kNmt:
      return nmt_text(text);
    default:
      return alphabet_text(text);
  }
}

// If the map removes the first characters, the next one takes their place, as in `tokenizers`.
std::string Normalizer::mapped(const CharactersMap& map, std::string_view text, MatchState& state,
                               size_t& origin) {
  std::string all;
  size_t kept = 0;
  map.replace(text, [&](std::string_view piece, std::string_view made) {
    state.budget.spend_bytes(made.size());
    if (origin > 0 && (static_cast<size_t>(piece.data() - text.data()) < origin || all.empty()))
      kept += made.size();
    all += made;
  });
  origin = kept;
  return all;
}

}  // namespace genesis::text
