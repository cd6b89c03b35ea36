#include "executor/generation/sampling_options.h"

#include <cmath>

#include "schema/core/error.h"

namespace genesis::generation {
namespace {

void check_number(const char* name, double value, bool is_in_range, const char* range) {
  if (!is_in_range) fail("{} is {}, expected {}", name, value, range);
}

bool changes_logits(const SamplingOptions& o) {
  return o.constraint || o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0 ||
         !o.logit_bias.empty() || o.no_repeat_ngram_size > 0 || (o.min_tokens > 0 && !o.stop_tokens.empty());
}

void check_bias(const TokenBias& each) {
  if (each.tokens.empty()) fail("a bias of logit_bias names no token");
  const bool is_in_range = std::abs(each.bias) <= 1e6 || each.bias == -INFINITY;
  check_number("a bias of logit_bias", each.bias, is_in_range, "a number in [-1e6, 1e6], or -infinity");
}

}  // namespace

// Comparisons are written so that NaN is out of every range.
void check_options(const SamplingOptions& o) {
  if (o.max_tokens < 0) fail("max_tokens is {}, it must not be negative", o.max_tokens);
  check_number("temperature", o.temperature, o.temperature >= 0 && o.temperature <= 1e6,
               "a number in [0, 1e6]");
  if (o.top_k < 0) fail("top_k is {}, it must not be negative", o.top_k);
  check_number("top_p", o.top_p, o.top_p > 0 && o.top_p <= 1, "a number in (0, 1]");
  check_number("min_p", o.min_p, o.min_p >= 0 && o.min_p <= 1, "a number in [0, 1]");
  check_number("typical_p", o.typical_p, o.typical_p > 0 && o.typical_p <= 1, "a number in (0, 1]");
  check_number("repetition_penalty", o.repetition_penalty,
               o.repetition_penalty > 0 && o.repetition_penalty <= 1e6, "a number in (0, 1e6]");
  check_number("presence_penalty", o.presence_penalty,
               o.presence_penalty >= -100 && o.presence_penalty <= 100, "a number in [-100, 100]");
  check_number("frequency_penalty", o.frequency_penalty,
               o.frequency_penalty >= -100 && o.frequency_penalty <= 100, "a number in [-100, 100]");
  for (const TokenBias& bias : o.logit_bias) check_bias(bias);
  if (o.no_repeat_ngram_size < 0)
    fail("no_repeat_ngram_size is {}, it must not be negative", o.no_repeat_ngram_size);
  if (o.min_tokens < 0) fail("min_tokens is {}, it must not be negative", o.min_tokens);
  for (const std::string& stop : o.stop_strings)
    if (stop.empty()) fail("a stop string is empty: every text would end before it begins");
  if (o.top_logprobs < 0 || o.top_logprobs > kMaxTopLogprobs)
    fail("top_logprobs is {}, expected 0 to {}", o.top_logprobs, kMaxTopLogprobs);
  if (o.top_logprobs > 0 && !o.logprobs)
    fail("top_logprobs is {}, but logprobs are not asked for", o.top_logprobs);
}

void check_tokens(const SamplingOptions& options, int64_t vocabulary) {
  for (const TokenBias& bias : options.logit_bias)
    for (const int64_t token : bias.tokens)
      if (token < 0 || token >= vocabulary)
        fail(
            "logit_bias names the token {}, which is not in the model's vocabulary: it has {} tokens, from 0 "
            "to {}",
            token, vocabulary, vocabulary - 1);
}

SamplingFeatures features_of(const SamplingOptions& o) {
  const bool typical = o.typical_p < 1 && o.temperature > 0;
  return {.penalties = changes_logits(o) || typical, .logprobs = o.logprobs, .typical = typical};
}

}  // namespace genesis::generation
