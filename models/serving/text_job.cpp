#include "models/serving/text_job.h"

#include <algorithm>
#include <mutex>

#include "models/generation/answer.h"
#include "models/serving/api_error.h"

namespace genesis::serving {
namespace {

// A request with its texts. All but cancel() is called by the thread of the engine, after it was started.
class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(LanguageModel& model, TextTask task, std::shared_ptr<Reply> reply, uint64_t client)
      : model_(model),
        task_(std::move(task)),
        reply_(std::move(reply)),
        client_(client),
        waited_(task_.prompts.size() * count()) {}

  size_t count() const { return static_cast<size_t>(task_.n); }
  void start();
  void cancel();

 private:
  // The news of a text since the format got something of it.
  struct Text {
    std::shared_ptr<text::Answer> answer;
    std::string piece;
    std::vector<text::TokenLogprob> logprobs;
  };

  void submit(size_t number);
  bool take(size_t number, const generation::NewToken& token);
  void end(size_t number, generation::Result result);
  void flush(size_t number);
  void finish();
  void fail(const std::exception_ptr& error);
  void send(const std::string& events) {
    if (task_.streams && !events.empty()) reply_->write(events);
  }

  LanguageModel& model_;
  TextTask task_;
  const std::shared_ptr<Reply> reply_;
  const uint64_t client_;
  std::vector<Text> texts_;
  size_t waited_;  // texts that have not ended
  Usage usage_;
  bool has_failed_ = false;
  std::mutex mutex_;
  std::vector<generation::RequestId> ids_;  // guarded by mutex_
};

void Job::start() {
  texts_.resize(waited_);
  if (task_.streams) {
    Headers headers = task_.headers;
    headers.emplace_back("content-type", "text/event-stream");
    headers.emplace_back("cache-control", "no-cache");
    headers.emplace_back("x-accel-buffering", "no");  // nginx passes events on at once
    reply_->begin(200, std::move(headers));
    send(task_.format->begin());
  }
  {
    // The thread of the engine may end the first text before the last is submitted, but it cannot cancel meanwhile.
    const std::lock_guard lock(mutex_);
    for (size_t number = 0; number < texts_.size(); ++number) submit(number);
  }
  reply_->on_gone([job = weak_from_this()] {
    if (const auto alive = job.lock()) alive->cancel();
  });
}

void Job::submit(size_t number) {
  Text& text = texts_[number];
  generation::Request request = {.prompt = task_.prompts[number / count()], .options = task_.options};
  const int64_t room = model_.capacity() - std::ssize(request.prompt);
  request.options.max_tokens = std::min(request.options.max_tokens, room);
  request.options.seed += number % count();
  request.shares_prompt = count() > 1;
  request.group = client_;
  request.adapter = task_.adapter;
  if (task_.constrain) request.options.constraint = task_.constrain();
  const auto on_piece = [this, number](const text::Piece& piece) {
    texts_[number].piece += piece.text;
    return true;
  };
  text.answer = std::make_shared<text::Answer>(model_.token_text(), request.options, on_piece);
  const auto self = shared_from_this();
  request.on_token = [self, number](const generation::NewToken& token) { return self->take(number, token); };
  request.on_result = [self, number](generation::Result result) { self->end(number, std::move(result)); };
  ids_.push_back(model_.submit(std::move(request)));
}

void Job::cancel() {
  const std::lock_guard lock(mutex_);
  for (const generation::RequestId id : ids_) model_.cancel(id);
}

bool Job::take(size_t number, const generation::NewToken& token) {
  Text& text = texts_[number];
  if (token.logprob) text.logprobs.push_back(*token.logprob);
  const bool goes_on = text.answer->take(token.token);
  if (!text.piece.empty()) flush(number);
  return goes_on && !has_failed_;
}

void Job::flush(size_t number) {
  Text& text = texts_[number];
  send(task_.format->add(number, text.piece, text.logprobs));
  text.piece.clear();
  text.logprobs.clear();
}

void Job::end(size_t number, generation::Result result) {
  if (number % count() == 0) {
    usage_.prompt += result.prefilled + result.cached;
    usage_.cached += result.cached;
  }
  usage_.generated += std::ssize(result.tokens);
  if (result.error && !has_failed_) fail(result.error);
  if (!has_failed_) {
    const text::GenerateResult made = texts_[number].answer->finish(std::move(result));
    if (!texts_[number].piece.empty() || !texts_[number].logprobs.empty()) flush(number);
    send(task_.format->end(number, made));
  }
  texts_[number] = {};
  if (--waited_ == 0 && !has_failed_) finish();
}

void Job::finish() {
  if (task_.streams) {
    send(task_.format->finish(usage_));
    return reply_->end();
  }
  Headers headers = task_.headers;
  headers.emplace_back("content-type", "application/json");
  reply_->send(200, std::move(headers), json_line(task_.format->whole(usage_)));
}

// Answers with the error; the other texts end with their next tokens.
void Job::fail(const std::exception_ptr& error) {
  has_failed_ = true;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    const ApiError told = api_error_of(known, false);
    if (!task_.streams) return send_error(*reply_, told);
    reply_->write("data: " + told.body() + "\n\n");
    reply_->end();
  }
}

}  // namespace

void start_texts(LanguageModel& model, TextTask task, const std::shared_ptr<Reply>& reply, uint64_t client) {
  for (const std::vector<int64_t>& prompt : task.prompts) model.room_behind(prompt);
  text::check_options(task.options);
  const auto count = static_cast<int64_t>(task.prompts.size()) * task.n;
  model.reserve(count);
  std::make_shared<Job>(model, std::move(task), reply, client)->start();
}

}  // namespace genesis::serving
