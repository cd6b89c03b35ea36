// A request to an Engine (executor/generation/engine.h), and its result.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/generation/sampling_options.h"

namespace genesis::generation {

using RequestId = uint64_t;       // counts from 1; an engine uses none twice
using ConversationId = uint64_t;  // the same; 0: none

struct TokenLogprob {
  int64_t token = 0;
  double logprob = 0;
  std::vector<TokenLogprob> top;  // for a chosen token: the most likely tokens, in descending order
};

// A chosen token, as a callback gets it.
struct NewToken {
  RequestId request = 0;
  int64_t token = 0;
  const TokenLogprob* logprob = nullptr;  // null unless the request asks for log-probabilities
};

// kCallback: on_token returned false. kCancelled: cancel(). kFailed: see Result::error.
enum class FinishReason : uint8_t { kMaxTokens, kStopToken, kCacheFull, kCallback, kCancelled, kFailed };
std::string_view name_of(FinishReason reason);  // "max_tokens", "stop_token", ...

struct Result {
  RequestId request = 0;
  FinishReason finish_reason = FinishReason::kMaxTokens;
  std::exception_ptr error = {};            // set if the request failed: the exception of a run or a callback
  std::vector<int64_t> tokens = {};         // new tokens, including the stop token
  std::vector<TokenLogprob> logprobs = {};  // one per token, if they were asked for

  int64_t prefilled = 0;  // tokens of the text that were read, including the prompt
  int64_t cached = 0;  // tokens of the text that the cache held already, or that were copied from another row
  int64_t steps = 0;   // runs that chose the tokens: as many, or fewer where drafts were accepted
  int64_t drafted = 0, accepted = 0;  // tokens that were drafted, and those of them that the text has
  double queued_seconds = 0;          // time until the request got a row of the cache
  double compile_seconds =
      0;  // time for plans and kernels that the session did not have yet, not part of the others
  double prefill_seconds = 0;  // time from then until the first new token
  double decode_seconds = 0;   // time after it, without the callback's own time while the device is idle

  std::string error_text() const;  // message of `error`; empty if there is none
};

struct Request {
  std::vector<int64_t> prompt;
  SamplingOptions options = {};
  // Called for each new token except stop tokens. Ends the text with this token by returning false.
  std::function<bool(const NewToken& token)> on_token = {};
  // Called once, with the result. Empty: the result waits until Engine::poll() takes it.
  std::function<void(Result result)> on_result = {};
  int64_t adapter = 0;  // the model's adapter (kAdapters of entry_points.h), from 1; 0: the base model
  ConversationId conversation = 0;  // the text that the prompt continues; 0: a new one
  // Other requests have the same prompt: if one that has a row of the cache, or gets one first, reads it, this one copies what the
  // cache then holds. The text is the same as if it had read the prompt itself.
  bool shares_prompt = false;
  // Requests of different groups share nothing of the cache, so that the time of an answer does not tell what other groups have asked.
  uint64_t group = 0;
};

// The sizes of what an engine can do.
struct RequestLimits {
  int64_t vocabulary = 0, capacity = 0;  // tokens are less than this; positions of the cache
};
// Throws the errors of Engine::submit() for a prompt that continues `behind` tokens.
void check_prompt(const std::vector<int64_t>& prompt, int64_t behind, const RequestLimits& limits);

}  // namespace genesis::generation
