// What a text is generated with, and what comes of it. Used by models/text/generator.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace genesis::text {

// In the order in which they are applied, as in transformers: penalties, temperature, top_k, top_p, min_p.
struct GenerateOptions {
  int64_t max_tokens = 100;  // new ones; 0: only the prompt is read
  double temperature = 1.0;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: off
  double top_p = 1.0;        // 1: off
  double min_p = 0;          // of the likeliest token's probability; 0: off
  // Keskar and others, "CTRL", 2019, as in transformers: the logit of every token of the text so far, the prompt
  // included, is divided by it where it is positive and multiplied where it is negative. 1: off.
  double repetition_penalty = 1;
  // As OpenAI's interface defines them, over the tokens that this call has made: logit -= presence * (count > 0) +
  // frequency * count. 0: off.
  double presence_penalty = 0, frequency_penalty = 0;
  // The choice of a token follows from the seed, its position in the text and its logits, and from nothing else.
  uint64_t seed = 0;
  std::vector<int64_t> stop_tokens = {};
  // The text ends before the first of them, wherever the borders of tokens lie. They need GeneratorOptions::text.
  std::vector<std::string> stop_strings = {};
  // Natural logarithms of probabilities by the model's own logits, before penalties and temperature.
  bool logprobs = false;
  int64_t top_logprobs = 0;  // the likeliest tokens beside the chosen one, kMaxTopLogprobs at most
};
inline constexpr int64_t kMaxTopLogprobs = 20;

enum class StopReason : uint8_t { kMaxTokens, kStopToken, kStopString, kCacheFull, kCallback };
std::string_view name_of(StopReason reason);  // "max_tokens", "stop_token", ...

struct TokenLogprob {
  int64_t token = 0;
  double logprob = 0;
  std::vector<TokenLogprob> top;  // of a chosen token: the likeliest, greatest first
};

// What a callback is given: one for each new token, stop tokens excepted, and one more at the end where text was held
// back (a character that is not whole yet, what may be the beginning of a stop string).
struct Piece {
  int64_t token = -1;  // -1: only text is left
  std::string text;    // that is sure to stay; often empty. Always empty without GeneratorOptions::text
};

struct GenerateResult {
  std::vector<int64_t> tokens;  // new ones, with the stop token or those of the stop string
  std::string text;             // of the new tokens, without the stop token or the stop string
  StopReason stop_reason = StopReason::kMaxTokens;
  std::string stop_string;             // the one that was found
  std::vector<TokenLogprob> logprobs;  // by token, where they were asked for

  int64_t prefilled = 0;       // tokens that the cache did not hold yet, with those of the prompt
  int64_t decoded = 0;         // steps that made a token
  double compile_seconds = 0;  // of all plans and kernels that this text needed and the session had not yet
  double prefill_seconds = 0;  // until the first new token is known
  double decode_seconds = 0;   // from there on, without the callback's own time where the device waits for it
};

// Throws Error naming the first option that is out of range.
void check_options(const GenerateOptions& options);

}  // namespace genesis::text
