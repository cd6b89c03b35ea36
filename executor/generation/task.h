// A request that has a row of the cache: takes the tokens that the model has chosen for it, and finds the end of the text.
#pragma once

#include <vector>

#include "executor/generation/draft_length.h"
#include "executor/generation/request.h"
#include "executor/generation/stopwatch.h"

namespace genesis::generation {

// A text in a row of the cache.
struct Text {
  std::vector<int64_t> tokens;
  int64_t cached = 0;  // number of leading tokens that the cache holds
  // Number of leading tokens whose keys and values are those of every text that begins with them (executor/generation/prefixes.h).
  int64_t shareable = 0;
  uint64_t group = 0;   // Request::group of the request that began it
  int64_t adapter = 0;  // Request::adapter of the request that continued it last
  bool is_shared_with(const Request& request) const {
    return group == request.group && adapter == request.adapter;
  }
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

// A request that was submitted, with its id and the time when that was.
struct Submission {
  RequestId id = 0;
  Request request;
  Clock::time_point time = {};
};

class Task {
 public:
  struct Context {
    WorkClock& clock;
    int64_t capacity = 0;     // positions of the cache
    int64_t drafted = 0;      // tokens of a draft at most; 0: none
    bool runs_ahead = false;  // the device works during callbacks, so their time counts
  };
  // `text` contains the prompt already, and must outlive this object.
  Task(Submission submission, Text& text, const Context& context);
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  RequestId id() const { return result_.request; }
  const SamplingOptions& options() const { return request_.options; }
  int64_t taken() const { return static_cast<int64_t>(result_.tokens.size()); }
  // Returns the number of tokens that the text can still get.
  int64_t remaining() const { return is_done() ? 0 : limit_ - taken(); }

  bool is_reading() const { return state_ == State::kReading; }
  bool goes_on() const { return state_ == State::kDecoding; }  // the next step chooses a token for it
  bool is_done() const { return state_ == State::kDone; }

  void prompt_is_read();
  void add_compile_seconds(double seconds) { result_.compile_seconds += seconds; }
  // Counts a run that chose tokens. `drafted` tokens were drafted for it, and the first `accepted` of them were chosen.
  void count_step(int64_t drafted = 0, int64_t accepted = 0);
  DraftLength& draft_length() { return draft_length_; }
  // The size of the text with the prompt. The prompt is whole if it began the text and an answer follows: other texts with the same
  // prompt then have the same in the cache.
  int64_t prompt_size() const { return prompt_size_; }
  bool has_whole_prompt() const { return has_whole_prompt_; }
  bool shares_prompt() const { return has_whole_prompt_ && request_.shares_prompt; }
  // Takes note that the cache got all but the last token of the prompt from another row.
  void prompt_is_copied();
  // Take the token that was chosen next: first its log-probability, if that was asked for, then the token. An exception of the
  // callback makes the request fail.
  void add_logprob(TokenLogprob logprob) { result_.logprobs.push_back(std::move(logprob)); }
  void take(int64_t token);
  void finish(FinishReason reason);
  void fail(std::exception_ptr error);

  // Returns the tokens that were chosen since the last call.
  std::vector<int64_t> unpolled();
  size_t polled() const { return polled_; }

  // Move the result and its callback out of a task that is done.
  Result take_result() { return std::move(result_); }
  std::function<void(Result)> take_on_result() { return std::move(request_.on_result); }

 private:
  enum class State { kReading, kDecoding, kDone };
  bool give(int64_t token);

  Text& text_;
  Request request_;
  const Context context_;
  Result result_;
  const int64_t limit_;  // limit of the new tokens
  const int64_t prompt_size_;
  const bool has_whole_prompt_;
  DraftLength draft_length_;
  const double began_;  // time when the row was given, in seconds of the clock
  double first_ = 0;    // time of the first token
  size_t polled_ = 0;   // tokens that were polled
  State state_ = State::kReading;
};

}  // namespace genesis::generation
