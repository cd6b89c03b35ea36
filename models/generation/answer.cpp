#include "models/generation/answer.h"

namespace genesis::text {
namespace {

using generation::FinishReason;

StopReason stop_reason_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
      return StopReason::kStopToken;
    case FinishReason::kCacheFull:
      return StopReason::kCacheFull;
    case FinishReason::kMaxTokens:
      return StopReason::kMaxTokens;
    default:
      return StopReason::kCallback;
  }
}

}  // namespace

bool Answer::take(int64_t token) {
  const bool goes_on = give(token, stream_.add ? stops_.add(stream_.add(token)) : "");
  return goes_on && stops_.found().empty();
}

bool Answer::give(int64_t token, const std::string& text) {
  text_ += text;
  return !on_piece_ || on_piece_({token, text});
}

// Gives the text that was held back, because it is an incomplete character or may begin a stop string.
void Answer::give_rest(StopReason reason) {
  if (!stream_.finish) return;
  std::string rest = stops_.add(stream_.finish());
  if (stops_.found().empty()) rest += stops_.finish();
  if (reason == StopReason::kCallback)
    text_ += rest;
  else if (!rest.empty())
    give(-1, rest);
}

GenerateResult Answer::finish(generation::Result result) {
  GenerateResult answer;
  answer.stop_string = stops_.found();
  answer.stop_reason =
      answer.stop_string.empty() ? stop_reason_of(result.finish_reason) : StopReason::kStopString;
  if (answer.stop_string.empty() && !result.tokens.empty()) give_rest(answer.stop_reason);
  answer.text = std::move(text_);
  answer.tokens = std::move(result.tokens);
  answer.logprobs = std::move(result.logprobs);
  answer.prefilled = result.prefilled;
  answer.decoded = std::max<int64_t>(std::ssize(answer.tokens) - 1, 0);
  answer.steps = result.steps;
  answer.drafted = result.drafted;
  answer.accepted = result.accepted;
  answer.compile_seconds = result.compile_seconds;
  answer.prefill_seconds = result.prefill_seconds;
  answer.decode_seconds = result.decode_seconds;
  return answer;
}

}  // namespace genesis::text
