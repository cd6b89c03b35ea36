// One answer: takes the tokens that a model has chosen and finds out where the text ends. Used by
// models/text/decoding.cpp and generator.cpp.
#pragma once

#include <string>
#include <vector>

#include "models/text/request.h"
#include "models/text/sampling_entries.h"
#include "models/text/stop_strings.h"
#include "models/text/stopwatch.h"

namespace genesis::text {

// What a row of a Generator's cache is of.
struct TextSoFar {
  std::vector<int64_t> tokens;
  int64_t cached = 0;    // of them, those that the cache holds
  int64_t capacity = 0;  // positions of the cache
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

bool has_penalties(const GenerateOptions& options);
SamplingFeatures features_of(const GenerateOptions& options);

class Answer {
 public:
  struct Way {
    TokenText stream;
    WorkClock& clock;
    bool runs_ahead = false;  // the device works during callbacks, so that their time counts
  };
  // The text has the prompt. `result` gets all that comes.
  Answer(TextSoFar& text, const Request& request, Way way, GenerateResult& result);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void prompt_is_read() { result_.prefill_seconds = way_.clock.now() - began_; }
  // The token that was chosen behind the text. Its log-probability goes first, where it was asked for.
  void add_logprob(TokenLogprob logprob) { result_.logprobs.push_back(std::move(logprob)); }
  void take(int64_t token);
  bool is_done() const { return is_done_; }

  const GenerateOptions& options() const { return request_.options; }
  int64_t taken() const { return static_cast<int64_t>(result_.tokens.size()); }
  // Tokens that the answer can still have.
  int64_t remaining() const { return is_done_ ? 0 : steps_ - taken(); }

 private:
  bool accept(int64_t token);
  bool ends(StopReason reason);
  bool give(int64_t token, const std::string& text);
  void finish();

  TextSoFar& text_;
  const Request& request_;
  const Way way_;
  GenerateResult& result_;
  StopStrings stops_;
  const int64_t steps_;  // tokens that the answer can have
  const double began_;   // by the clock
  double first_ = 0;     // when the first token was there
  bool is_done_;
};

}  // namespace genesis::text
