#include "executor/generation/task.h"

#include <algorithm>

namespace genesis::generation {

Task::Task(Submission submission, Text& text, const Context& context)
    : text_(text),
      request_(std::move(submission.request)),
      context_(context),
      limit_(std::min(request_.options.max_tokens, context.capacity - text.size() + 1)),
      prompt_size_(text.size()),
      has_whole_prompt_(text.cached == 0 && std::ssize(request_.prompt) == text.size() && limit_ > 0),
      draft_length_(context.drafted),
      began_(context.clock.now()) {
  result_.request = submission.id;
  result_.prefilled = text.size() - text.cached;
  result_.cached = text.cached;
  result_.queued_seconds = seconds_between(submission.time, Clock::now());
}

void Task::prompt_is_read() {
  result_.prefill_seconds = context_.clock.now() - began_;
  state_ = State::kDecoding;
  if (limit_ == 0) finish(FinishReason::kMaxTokens);
}

void Task::prompt_is_copied() {
  result_.cached = text_.cached;
  result_.prefilled = text_.size() - text_.cached;
}

void Task::count_step(int64_t drafted, int64_t accepted) {
  ++result_.steps;
  result_.drafted += drafted;
  result_.accepted += accepted;
  draft_length_.take(drafted, accepted);
}

void Task::take(int64_t token) {
  if (taken() == 0) {
    first_ = context_.clock.now();
    result_.prefill_seconds = first_ - began_;
  }
  text_.cached = text_.size();
  text_.tokens.push_back(token);
  result_.tokens.push_back(token);
  const auto& stops = options().stop_tokens;
  if (std::ranges::find(stops, token) != stops.end()) return finish(FinishReason::kStopToken);
  try {
    if (!give(token)) return finish(FinishReason::kCallback);
  } catch (...) {
    return fail(std::current_exception());
  }
  if (taken() == limit_)
    finish(options().max_tokens <= limit_ ? FinishReason::kMaxTokens : FinishReason::kCacheFull);
}

bool Task::give(int64_t token) {
  if (!request_.on_token) return true;
  double seconds = 0;
  Stopwatch watch(context_.runs_ahead ? seconds : context_.clock.left_out);
  return request_.on_token({id(), token, options().logprobs ? &result_.logprobs.back() : nullptr});
}

void Task::finish(FinishReason reason) {
  state_ = State::kDone;
  result_.finish_reason = reason;
  if (taken() > 0) result_.decode_seconds = context_.clock.now() - first_;
}

void Task::fail(std::exception_ptr error) {
  finish(FinishReason::kFailed);
  result_.error = std::move(error);
}

std::vector<int64_t> Task::unpolled() {
  const auto first = result_.tokens.begin() + static_cast<std::ptrdiff_t>(polled_);
  polled_ = result_.tokens.size();
  return {first, result_.tokens.end()};
}

}  // namespace genesis::generation
