// The settings of an answer that a caller chooses. Those without a value are the ones that the model's makers chose
// (generation_config.json), or else the defaults of GenerateOptions, which says what each means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/generation/generate_options.h"

namespace genesis::text {

struct GenerateSettings {
  std::optional<int64_t> max_tokens = {};
  std::optional<double> temperature = {};
  std::optional<int64_t> top_k = {};
  std::optional<double> top_p = {}, min_p = {}, typical_p = {};
  std::optional<double> repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {};
  std::optional<uint64_t> seed = {};
  std::optional<int64_t> no_repeat_ngram_size = {}, min_tokens = {};
  std::vector<TokenBias> logit_bias = {};  // beside the makers' own
  // Strings and tokens that end the text, beside the makers' own.
  std::vector<std::string> stop_strings = {};
  std::vector<int64_t> stop_tokens = {};
  bool ignore_eos = false;  // the makers' tokens end no text, only stop_tokens and stop_strings do

  // Returns `options` with the settings that have a value; with ignore_eos without its stop tokens.
  GenerateOptions over(GenerateOptions options) const;
};

}  // namespace genesis::text
