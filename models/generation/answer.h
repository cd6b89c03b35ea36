// One answer: takes the tokens that a model has chosen, and finds the end of the text.
#pragma once

#include <string>
#include <vector>

#include "models/generation/request.h"
#include "models/generation/sampling_entries.h"
#include "models/generation/stop_strings.h"
#include "models/generation/stopwatch.h"

namespace genesis::text {

// The text in one row of a Generator's cache.
struct TextSoFar {
  std::vector<int64_t> tokens;
  int64_t cached = 0;    // number of leading tokens that the cache holds
  int64_t capacity = 0;  // positions of the cache
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

bool has_penalties(const GenerateOptions& options);
SamplingFeatures features_of(const GenerateOptions& options);

class Answer {
 public:
  struct Context {
    TokenText stream;
    WorkClock& clock;
    bool runs_ahead = false;  // the device works during callbacks, so their time counts
  };
  // `text` contains the prompt already. The answer is written to `result`.
  Answer(TextSoFar& text, const Request& request, Context context, GenerateResult& result);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void prompt_is_read() { result_.prefill_seconds = context_.clock.now() - began_; }
  // Take the token that was chosen next: first its log-probability, if that was asked for, then the token.
  void add_logprob(TokenLogprob logprob) { result_.logprobs.push_back(std::move(logprob)); }
  void take(int64_t token);
  bool is_done() const { return is_done_; }

  const GenerateOptions& options() const { return request_.options; }
  int64_t taken() const { return static_cast<int64_t>(result_.tokens.size()); }
  // Returns the number of tokens that the answer can still get.
  int64_t remaining() const { return is_done_ ? 0 : steps_ - taken(); }

 private:
  bool accept(int64_t token);
  bool ends(StopReason reason);
  bool give(int64_t token, const std::string& text);
  void finish();

  TextSoFar& text_;
  const Request& request_;
  const Context context_;
  GenerateResult& result_;
  StopStrings stops_;
  const int64_t steps_;  // limit of the answer's tokens
  const double began_;   // start of the answer, in seconds of the clock
  double first_ = 0;     // time of the first token
  bool is_done_;
};

}  // namespace genesis::text
