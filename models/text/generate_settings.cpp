#include "models/text/generate_settings.h"

#include <algorithm>

namespace genesis::text {
namespace {

void set(auto& option, const auto& setting) {
  if (setting) option = *setting;
}

}  // namespace

GenerateOptions GenerateSettings::over(GenerateOptions options) const {
  set(options.max_tokens, max_tokens);
  set(options.temperature, temperature);
  set(options.top_k, top_k);
  set(options.top_p, top_p);
  set(options.min_p, min_p);
  set(options.typical_p, typical_p);
  set(options.repetition_penalty, repetition_penalty);
  set(options.presence_penalty, presence_penalty);
  set(options.frequency_penalty, frequency_penalty);
  set(options.seed, seed);
  set(options.no_repeat_ngram_size, no_repeat_ngram_size);
  set(options.min_tokens, min_tokens);
  options.logit_bias.insert(options.logit_bias.end(), logit_bias.begin(), logit_bias.end());
  if (ignore_eos) options.stop_tokens.clear();
  options.stop_strings.insert(options.stop_strings.end(), stop_strings.begin(), stop_strings.end());
  for (const int64_t token : stop_tokens)
    if (std::ranges::find(options.stop_tokens, token) == options.stop_tokens.end())
      options.stop_tokens.push_back(token);
  return options;
}

}  // namespace genesis::text
