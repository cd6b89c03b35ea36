// The options for generating a text, and its result.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "executor/generation/request.h"

namespace genesis::text {

using generation::kMaxTopLogprobs;
using generation::TokenLogprob;

// The options of an Engine (generation::SamplingOptions), and stop strings. They are applied in this order as in transformers:
// penalties, temperature, top_k, top_p, min_p.
struct GenerateOptions {
  int64_t max_tokens = 100;  // limit of new tokens; 0: only the prompt is read
  double temperature = 1.0;  // 0: greedy
  int64_t top_k = 0;         // 0: off
  double top_p = 1.0;        // 1: off
  double min_p = 0;          // minimum relative to the highest probability; 0: off
  // Keskar and others, "CTRL", 2019, as in transformers: the logit of every token in the text so far, including the prompt, is
  // divided by the penalty if it is positive, and multiplied if it is negative. 1: off.
  double repetition_penalty = 1;
  // OpenAI's penalties over the tokens that this call has generated: logit -= presence * (count > 0) + frequency * count. 0: off.
  double presence_penalty = 0, frequency_penalty = 0;
  // The choice of a token depends only on the seed, its position in the text, and its logits.
  uint64_t seed = 0;
  std::vector<int64_t> stop_tokens = {};
  // The text ends before the first stop string, even if it begins inside of a token. Requires GeneratorOptions::text.
  std::vector<std::string> stop_strings = {};
  // Return natural log-probabilities of the model's own logits, before penalties and temperature.
  bool logprobs = false;
  int64_t top_logprobs = 0;  // most likely tokens to return per token, up to kMaxTopLogprobs
};
// Returns the options that an Engine knows: all but the stop strings.
generation::SamplingOptions sampling_of(const GenerateOptions& options);

enum class StopReason : uint8_t { kMaxTokens, kStopToken, kStopString, kCacheFull, kCallback };
std::string_view name_of(StopReason reason);  // "max_tokens", "stop_token", ...

// The argument of a callback. It is called for each new token except stop tokens, and once more at the end if text was held back
// (an incomplete character, or a possible beginning of a stop string).
struct Piece {
  int64_t token = -1;  // -1: only text is left
  std::string text;    // new text that is final; often empty. Always empty without GeneratorOptions::text
};

struct GenerateResult {
  std::vector<int64_t> tokens;  // new tokens, including the stop token or those of the stop string
  std::string text;             // text of the new tokens, without the stop token or stop string
  StopReason stop_reason = StopReason::kMaxTokens;
  std::string stop_string;             // the stop string that was found
  std::vector<TokenLogprob> logprobs;  // one per token, if they were asked for

  int64_t prefilled = 0;       // tokens that were not in the cache yet, including the prompt
  int64_t decoded = 0;         // steps that generated a token
  double compile_seconds = 0;  // time for plans and kernels that the session did not have yet
  double prefill_seconds = 0;  // time until the first new token
  double decode_seconds = 0;   // time after it, without the callback's own time while the device is idle
};

// Throws Error naming the first option that is out of range.
void check_options(const GenerateOptions& options);

}  // namespace genesis::text
