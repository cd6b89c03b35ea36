#include "models/text/answer.h"

#include <algorithm>

#include "models/text/stopwatch.h"

namespace genesis::text {

bool has_penalties(const GenerateOptions& o) {
  return o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0;
}

SamplingFeatures features_of(const GenerateOptions& o) {
  return {.penalties = has_penalties(o), .logprobs = o.logprobs};
}

Answer::Answer(Session& session, TextSoFar& text, const GenerateOptions& options, Way way,
               GenerateResult& result)
    : session_(session),
      text_(text),
      options_(options),
      way_(std::move(way)),
      result_(result),
      stops_(options.stop_strings),
      decode_(decode_name(features_of(options))),
      steps_(std::min(options.max_tokens, text.capacity - text.size() + 1)) {}

void Answer::run() {
  result_.stop = options_.max_tokens <= steps_ ? StopReason::kMaxTokens : StopReason::kCacheFull;
  {
    const Stopwatch watch(result_.prefill_seconds);
    start();
    take();
  }
  double with_callback = 0;
  {
    const Stopwatch all(with_callback);
    while (accept() && taken_ < steps_) {
      const Stopwatch watch(result_.decode_seconds);
      start();
      take();
    }
  }
  if (way_.runs_ahead) result_.decode_seconds = with_callback;  // the device went on meanwhile
  result_.decoded = taken_ - 1;
  finish();
}

// A device says what went wrong in a step when it is started, or when its result is taken.
template <class Body>
void Answer::naming_position(int64_t step, const Body& body) const {
  with_context(body, [&] {
    return fmt::format("while the token at position {} was chosen", text_.size() + step - taken_);
  });
}

// All steps that may be under way now.
void Answer::start() {
  const int64_t wanted = std::min(taken_ + (way_.runs_ahead ? 2 : 1), steps_);
  for (; started_ < wanted; ++started_)
    naming_position(started_, [&] {
      const bool is_prefill = started_ == 0 && !way_.first.entry.empty();
      session_.start(is_prefill ? way_.first.entry : decode_,
                     is_prefill ? way_.first.inputs : NamedTensors());
    });
}

// The token of the first step that was started.
void Answer::take() {
  NamedTensors outputs;
  naming_position(taken_, [&] { outputs = session_.result(); });
  ++taken_;
  text_.cached = text_.size();
  token_ = outputs.at("token").item<int64_t>();
  text_.tokens.push_back(token_);
  result_.tokens.push_back(token_);
  if (options_.logprobs) add_logprobs(outputs);
}

void Answer::add_logprobs(const NamedTensors& outputs) {
  TokenLogprob chosen{token_, static_cast<double>(outputs.at("logprob").item<float>()), {}};
  const Tensor &tokens = outputs.at("top_tokens"), &logprobs = outputs.at("top_logprobs");
  const size_t count =
      std::min(static_cast<size_t>(options_.top_logprobs), static_cast<size_t>(tokens.numel()));
  for (size_t i = 0; i < count; ++i)
    chosen.top.push_back({tokens.as<int64_t>()[i], static_cast<double>(logprobs.as<float>()[i]), {}});
  result_.logprobs.push_back(std::move(chosen));
}

// False where the answer ends with this token.
bool Answer::accept() {
  const auto& stops = options_.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token_) != stops.end()) return ends(StopReason::kStopToken);
  const bool goes_on = give(token_, way_.stream.add ? stops_.add(way_.stream.add(token_)) : "");
  if (!stops_.found().empty()) return ends(StopReason::kStopString);
  return goes_on || ends(StopReason::kCallback);
}

bool Answer::ends(StopReason reason) {
  result_.stop = reason;
  return false;
}

bool Answer::give(int64_t token, const std::string& text) {
  result_.text += text;
  return !way_.on_piece || way_.on_piece({token, text});
}

// A step too many has only written behind the text, where the next prompt goes, and counted its token, which the next
// answer does anew.
void Answer::forget_steps() {
  for (; started_ > taken_; --started_) try {
      session_.result();
    } catch (const Error&) {  // what it did is not wanted
    }
}

void Answer::finish() {
  forget_steps();
  result_.stop_string = stops_.found();
  if (!way_.stream.finish || !result_.stop_string.empty()) return;
  std::string rest = stops_.add(way_.stream.finish());
  if (stops_.found().empty()) rest += stops_.finish();
  if (result_.stop == StopReason::kCallback)
    result_.text += rest;
  else if (!rest.empty())
    give(-1, rest);
}

}  // namespace genesis::text
