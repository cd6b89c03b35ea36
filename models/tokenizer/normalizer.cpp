#include "models/tokenizer/normalizer.h"

#include <utility>

#include "models/tokenizer/byte_alphabet.h"
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

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  if (steps.size() > kMaxSteps) fail("a normalizer of {} steps, the limit is {}", steps.size(), kMaxSteps);
  for (const NormalizerStep& step : steps) {
    steps_.push_back({step, nullptr});
    if (step.kind == Kind::kReplace)
      steps_.back().replacement =
          std::make_shared<const Replacement>(step.pattern, step.is_expression, step.content);
  }
}

std::string_view Normalizer::normalize(std::string_view text, MatchState& state, std::string& storage) const {
  std::string next;
  for (const Step& step : steps_) {
    if (step.description.kind == Kind::kForm) {
      text = normalized(text, step.description.form, next);
      if (text.data() != next.data()) continue;
    } else if (step.description.kind == Kind::kStrip) {
      text = stripped(text, step.description.left, step.description.right);
      continue;
    } else {
      next = changed(step, text, state);
    }
    if (step.description.kind != Kind::kReplace) state.budget.spend_bytes(next.size());
    storage.swap(next);
    text = storage;
  }
  return text;
}

std::string Normalizer::changed(const Step& step, std::string_view text, MatchState& state) {
  switch (step.description.kind) {
    case Kind::kLowercase:
      return lower_case(text);
    case Kind::kPrepend:
      return text.empty() ? "" : step.description.content + std::string(text);
    case Kind::kReplace:
      return step.replacement->in(text, state);
    default:
      return alphabet_text(text);
  }
}

}  // namespace genesis::text
