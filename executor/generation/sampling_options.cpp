#include "executor/generation/sampling_options.h"

#include "schema/core/error.h"

namespace genesis::generation {
namespace {

void check_number(const char* name, double value, bool is_in_range, const char* range) {
  if (!is_in_range) fail("{} is {}, expected {}", name, value, range);
}

bool has_penalties(const SamplingOptions& o) {
  return o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0;
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
  check_number("repetition_penalty", o.repetition_penalty,
               o.repetition_penalty > 0 && o.repetition_penalty <= 1e6, "a number in (0, 1e6]");
  check_number("presence_penalty", o.presence_penalty,
               o.presence_penalty >= -100 && o.presence_penalty <= 100, "a number in [-100, 100]");
  check_number("frequency_penalty", o.frequency_penalty,
               o.frequency_penalty >= -100 && o.frequency_penalty <= 100, "a number in [-100, 100]");
  if (o.top_logprobs < 0 || o.top_logprobs > kMaxTopLogprobs)
    fail("top_logprobs is {}, expected 0 to {}", o.top_logprobs, kMaxTopLogprobs);
  if (o.top_logprobs > 0 && !o.logprobs)
    fail("top_logprobs is {}, but logprobs are not asked for", o.top_logprobs);
}

SamplingFeatures features_of(const SamplingOptions& o) {
  return {.penalties = has_penalties(o), .logprobs = o.logprobs};
}

}  // namespace genesis::generation
