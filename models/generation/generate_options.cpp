#include "models/generation/generate_options.h"

#include "schema/core/error.h"

namespace genesis::text {

std::string_view name_of(StopReason reason) {
  static constexpr std::string_view kNames[] = {"max_tokens", "stop_token", "stop_string", "cache_full",
                                                "callback"};
  return kNames[static_cast<size_t>(reason)];
}

generation::SamplingOptions sampling_of(const GenerateOptions& o) {
  return {.max_tokens = o.max_tokens,
          .temperature = o.temperature,
          .top_k = o.top_k,
          .top_p = o.top_p,
          .min_p = o.min_p,
          .repetition_penalty = o.repetition_penalty,
          .presence_penalty = o.presence_penalty,
          .frequency_penalty = o.frequency_penalty,
          .seed = o.seed,
          .stop_tokens = o.stop_tokens,
          .logprobs = o.logprobs,
          .top_logprobs = o.top_logprobs};
}

void check_options(const GenerateOptions& options) {
  generation::check_options(sampling_of(options));
  for (const std::string& stop : options.stop_strings)
    if (stop.empty()) fail("a stop string is empty: every text would end before it begins");
}

}  // namespace genesis::text
