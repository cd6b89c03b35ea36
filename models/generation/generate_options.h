// The options for generating a text, a request to a Generator (models/generation/generator.h), and its result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/generation/request.h"

namespace genesis::text {

using generation::kMaxTopLogprobs;
using generation::TokenLogprob;

// The options of an Engine; stop strings among them, which need GeneratorOptions::text.
using GenerateOptions = generation::SamplingOptions;
using generation::check_options;
using generation::TokenBias;

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

  int64_t prefilled = 0;  // tokens that were not in the cache yet, including the prompt
  int64_t decoded = 0;    // tokens behind the first
  int64_t steps = 0;      // runs that chose the tokens: fewer than tokens where drafts were accepted
  int64_t drafted = 0, accepted = 0;  // tokens that were drafted, and those of them that the text has
  double compile_seconds = 0;         // time for plans and kernels that the session did not have yet
  double prefill_seconds = 0;         // time until the first new token
  double decode_seconds = 0;  // time after it, without the callback's own time while the device is idle
};

// Converts the tokens of one answer to text, one by one.
struct TokenText {
  std::function<std::string(int64_t token)> add;  // returns the text that is complete by now
  std::function<std::string()> finish;            // returns the rest
};

// One request of generate_all().
struct Request {
  std::vector<int64_t> prompt;
  GenerateOptions options = {};
  std::function<bool(const Piece&)> on_piece = {};  // the same as for continue_with()
  bool shares_prompt = false;                       // see generation::Request
};

}  // namespace genesis::text
