#include "models/generation/answer.h"

#include <algorithm>

namespace genesis::text {

bool has_penalties(const GenerateOptions& o) {
  return o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0;
}

SamplingFeatures features_of(const GenerateOptions& o) {
  return {.penalties = has_penalties(o), .logprobs = o.logprobs};
}

Answer::Answer(TextSoFar& text, const Request& request, Context context, GenerateResult& result)
    : text_(text),
      request_(request),
      context_(std::move(context)),
      result_(result),
      stops_(request.options.stop_strings),
      steps_(std::min(request.options.max_tokens, text.capacity - text.size() + 1)),
      began_(context_.clock.now()),
      is_done_(steps_ == 0) {
  result_.stop_reason =
      request.options.max_tokens <= steps_ ? StopReason::kMaxTokens : StopReason::kCacheFull;
}

void Answer::take(int64_t token) {
  if (taken() == 0) {
    first_ = context_.clock.now();
    result_.prefill_seconds = first_ - began_;
  }
  text_.cached = text_.size();
  text_.tokens.push_back(token);
  result_.tokens.push_back(token);
  if (!accept(token) || taken() == steps_) finish();
}

// Takes a token. Returns false if the answer ends with it.
bool Answer::accept(int64_t token) {
  const auto& stops = options().stop_tokens;
  if (std::ranges::find(stops, token) != stops.end()) return ends(StopReason::kStopToken);
  const bool goes_on = give(token, context_.stream.add ? stops_.add(context_.stream.add(token)) : "");
  if (!stops_.found().empty()) return ends(StopReason::kStopString);
  return goes_on || ends(StopReason::kCallback);
}

bool Answer::ends(StopReason reason) {
  result_.stop_reason = reason;
  return false;
}

bool Answer::give(int64_t token, const std::string& text) {
  result_.text += text;
  double seconds = 0;
  Stopwatch watch(context_.runs_ahead ? seconds : context_.clock.left_out);
  return !request_.on_piece || request_.on_piece({token, text});
}

void Answer::finish() {
  is_done_ = true;
  result_.decoded = taken() - 1;
  result_.stop_string = stops_.found();
  if (context_.stream.finish && result_.stop_string.empty()) {
    std::string rest = stops_.add(context_.stream.finish());
    if (stops_.found().empty()) rest += stops_.finish();
    if (result_.stop_reason == StopReason::kCallback)
      result_.text += rest;
    else if (!rest.empty())
      give(-1, rest);
  }
  result_.decode_seconds = context_.clock.now() - first_;
}

}  // namespace genesis::text
