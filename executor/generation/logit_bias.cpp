#include "executor/generation/logit_bias.h"

#include <algorithm>
#include <limits>

namespace genesis::generation {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void add(std::span<float> bias, int64_t token, float value) {
  if (token >= 0 && token < std::ssize(bias)) bias[static_cast<size_t>(token)] += value;
}

// Adds to the last token of a sequence if the text ends with the others. A sequence that is longer than the text counts for
// nothing, as in transformers.
void add_sequence(const TokenBias& sequence, std::span<const int64_t> text, std::span<float> bias) {
  const std::span<const int64_t> tokens = sequence.tokens;
  const auto before = tokens.first(tokens.size() - 1);
  if (!before.empty() &&
      (tokens.size() > text.size() || !std::ranges::equal(before, text.last(before.size()))))
    return;
  add(bias, tokens.back(), static_cast<float>(sequence.bias));
}

// Forbids the tokens that would repeat `size` tokens in a row.
void forbid_repetition(int64_t size, std::span<const int64_t> text, std::span<float> bias) {
  const auto before = static_cast<size_t>(size) - 1;
  if (text.size() < before) return;
  const auto end = text.last(before);
  for (size_t i = 0; i + before < text.size(); ++i)
    if (std::ranges::equal(end, text.subspan(i, before))) add(bias, text[i + before], kNever);
}

}  // namespace

bool bias_follows_text(const SamplingOptions& options) {
  return options.constraint || options.no_repeat_ngram_size > 0 ||
         (options.min_tokens > 0 && !options.stop_tokens.empty()) ||
         std::ranges::any_of(options.logit_bias,
                             [](const TokenBias& bias) { return bias.tokens.size() > 1; });
}

void add_logit_bias(const SamplingOptions& options, std::span<const int64_t> text, int64_t taken,
                    std::span<float> bias) {
  for (const TokenBias& sequence : options.logit_bias) add_sequence(sequence, text, bias);
  if (options.no_repeat_ngram_size > 0) forbid_repetition(options.no_repeat_ngram_size, text, bias);
  if (taken < options.min_tokens)
    for (const int64_t token : options.stop_tokens) add(bias, token, kNever);
  if (options.constraint) options.constraint(text.last(static_cast<size_t>(taken)), bias);
}

}  // namespace genesis::generation
