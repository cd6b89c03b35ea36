#include "executor/generation/engine.h"

#include <algorithm>
#include <deque>
#include <set>

#include "executor/generation/cache_budget.h"
#include "executor/generation/cache_rows.h"
#include "executor/generation/decoding.h"
#include "executor/generation/entry_points.h"
#include "executor/generation/inbox.h"
#include "executor/generation/one_step.h"
#include "executor/generation/prefix_store.h"
#include "executor/generation/prefixes.h"
#include "executor/generation/prompt_reader.h"
#include "executor/generation/rewinding.h"
#include "executor/generation/shared_prompts.h"
#include "executor/generation/stopwatch.h"

namespace genesis::generation {
namespace {

size_t checked_rows(const Model& model) {
  if (!model.find_entry(kFillCache))
    fail("the session's model has no entry point '{}': open it with open_for_generation()", kFillCache);
  return static_cast<size_t>(rows_of_cache(model));
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Session& session, const EngineOptions& options)
      : session_(session),
        options_(options),
        rows_(checked_rows(session.model()), options.reuse_prefixes),
        adapters_(session, rows_.all()),
        limits_(PromptReader::limits_of(session, options.prefill_chunk, options.step_tokens,
                                        options.reproducible)),
        reads_again_(takes_text_length(session.model()) || !can_rewind(session.model())),
        vocabulary_(vocabulary_of(session.model().entry("decode"), 2)),
        budget_(session, rows_.all().size(), limits_.capacity, options.cache_bytes),
        store_(session, options.reuse_prefixes && !reads_again_ ? options.prefix_bytes : 0, limits_.chunk),
        company_(!limits_.by_length_alone && session.has_entry(kFillPacked) ? kPackedTexts : 1),
        runs_ahead_(!options.drafts.drafter && options.run_ahead.value_or(session.is_asynchronous())),
        decoding_(session, rows_.all(), vocabulary_, runs_ahead_, !limits_.by_length_alone, work_,
                  make_speculation()) {
    if (!budget_.is_limited()) session.reset_states(StateRole::kCache);
  }

  void check(const std::vector<int64_t>& prompt, const SamplingOptions& options, int64_t behind) const;
  RequestId submit(Request request) {
    // The text of a conversation may change until its turn comes, so that an empty prompt may be right.
    check(request.prompt, request.options, request.conversation != 0 && request.prompt.empty() ? 1 : 0);
    adapters_.check(request.adapter);
    return inbox_.submit(std::move(request));
  }
  void cancel(RequestId id) { inbox_.cancel(id); }
  bool wait(double seconds) const { return inbox_.wait(seconds); }

  bool step();
  bool is_idle() const { return queue_.empty() && ended_.empty() && inbox_.is_empty() && rows_.are_free(); }
  Progress poll(RequestId id);
  void clear();
  Load load() const;

  void grow_cache(int64_t positions) {
    if (!rows_.are_free())
      fail("the cache cannot grow to {} positions while requests have rows of it: wait for their results",
           positions);
    if (budget_.is_limited())
      fail("the cache cannot grow to {} positions: EngineOptions::cache_bytes is set", positions);
    decoding_.forget();
    session_.grow_cache(positions);
    limits_.capacity = positions_of_cache(session_.model());
    compiled_.clear();
  }

  CacheRows& rows() { return rows_; }
  const Work& work() const { return work_; }
  int64_t capacity() const { return limits_.capacity; }
  int64_t vocab_size() const { return vocabulary_; }

 private:
  // A result that waits for its callback, or for poll().
  struct Ended {
    Result result;
    std::function<void(Result)> on_result;
    size_t polled = 0;
  };

  std::unique_ptr<Speculation> make_speculation() {
    if (!options_.drafts.drafter) return {};
    return std::make_unique<Speculation>(session_, rows_.all(), options_.drafts);
  }
  void take_mail();
  void cancel_now(RequestId id);
  bool has_row(const Submission& submission) {
    return rows_.find_free(submission.request.conversation) != nullptr;
  }
  bool can_admit() {
    const bool waits = decoding_.goes_on() && company_.waits_one_more_step(rows_, std::ssize(queue_));
    if (rows_.free() == 0 || waits) return false;
    const auto first = std::ranges::find_if(queue_, [&](const auto& waiting) { return has_row(waiting); });
    return first != queue_.end() && budget_.has_room(rows_.all(), positions_of(first->request));
  }
  int64_t positions_of(const Request& request) const;
  void admit();
  void start_task(Submission submission);
  void prepare_row(const Request& request, Row*& row);  // sets `row` before it gives it the text
  void end(Submission submission, FinishReason reason, std::exception_ptr error = {});
  void read_prompts();
  Decoding::First read_chunks(const std::vector<size_t>& reading);
  void copy_prompts_of(const std::vector<size_t>& waiting);
  void begin(Decoding::First first);
  void compile(const std::string& entry, const Bindings& sizes, Task& task);
  void compile_drafts(Task& task);
  template <class Body>
  void compile_timed(Task& task, const Body& body);
  void fail_rows(const std::vector<size_t>& rows, const std::exception_ptr& error);
  void recover(const std::exception_ptr& error);
  bool fail_rows_of_nan(const std::exception_ptr& error);
  size_t index_of(const Row& row) const { return static_cast<size_t>(&row - rows_.all().data()); }
  void release(Row& row) {
    row.is_unsaved = row.conversation == 0;
    rows_.release(row);
    budget_.release(row, index_of(row));
  }
  void deliver();
  template <class Body>
  void attempt(const Body& body) {
    try {
      body();
    } catch (const Error&) {
      recover(std::current_exception());
    }
  }

  Session& session_;
  const EngineOptions options_;
  CacheRows rows_;
  RowAdapters adapters_;
  PromptReader::Limits limits_;
  // A text that goes on is read from its beginning: rotated keys depend on the length of the text that they were read in, or a
  // recurrent state goes on from its last token alone.
  const bool reads_again_;
  const int64_t vocabulary_;
  CacheBudget budget_;
  PrefixStore store_;
  Company company_;
  const bool runs_ahead_;
  Work work_;
  Decoding decoding_;
  Inbox inbox_;
  std::deque<Submission> queue_;
  std::deque<Ended> ended_;              // for their callbacks
  std::map<RequestId, Ended> finished_;  // for poll()
  std::set<std::pair<std::string, Bindings>> compiled_;
  WorkClock clock_;
  bool busy_ = false, must_begin_ = false;  // decoding_ does not have the present state of the rows
};

bool Engine::Impl::step() {
  const OneStep one(busy_);
  const Stopwatch watch(work_.seconds);
  take_mail();
  deliver();
  if (must_begin_ || rows_.has_reading() || can_admit() || decoding_.can_shrink()) {
    attempt([&] { decoding_.drain(); });
    deliver();
    take_mail();
    store_.save_ended(rows_.all());
    admit();
    must_begin_ |= decoding_.shrink(rows_, budget_);
    adapters_.update();
    read_prompts();
  }
  if (decoding_.goes_on()) attempt([&] { decoding_.step(); });
  if (!decoding_.goes_on()) decoding_.forget();
  deliver();
  return !is_idle();
}

void Engine::Impl::take_mail() {
  Inbox::Mail mail = inbox_.take();
  for (Submission& submission : mail.submissions) queue_.push_back(std::move(submission));
  for (const RequestId id : mail.cancelled) cancel_now(id);
}

void Engine::Impl::cancel_now(RequestId id) {
  if (Row* row = rows_.find(id); row && !row->task->is_done()) row->task->finish(FinishReason::kCancelled);
  const auto queued = std::ranges::find(queue_, id, &Submission::id);
  if (queued == queue_.end()) return;
  end(std::move(*queued), FinishReason::kCancelled);
  queue_.erase(queued);
}

// Ends a request that got no row.
void Engine::Impl::end(Submission submission, FinishReason reason, std::exception_ptr error) {
  Result result = {.request = submission.id, .finish_reason = reason, .error = std::move(error)};
  result.queued_seconds = seconds_between(submission.time, Clock::now());
  ended_.push_back({std::move(result), std::move(submission.request.on_result)});
}

// Returns the positions of the cache that a request can need: its text's, a draft's, and those of a step that runs when it ends.
int64_t Engine::Impl::positions_of(const Request& request) const {
  if (rows_.all().size() == 1) return capacity();  // chunks of the only row write their padding
  const bool continues = request.conversation != 0 && rows_.is_open(request.conversation);
  const int64_t behind = continues ? rows_.text(request.conversation).size() : 0;
  const int64_t text = std::min(behind + std::ssize(request.prompt), capacity()), room = capacity() - text;
  return text + std::min(std::min(request.options.max_tokens, room) + kMaxVerified, room);
}

// Gives free rows to queued requests. A request that waits for its conversation does not hold up others; one that waits for memory
// does, so that short requests cannot keep a long one waiting.
void Engine::Impl::admit() {
  company_.begin();
  for (auto at = queue_.begin(); at != queue_.end() && rows_.free() > 0;) {
    if (!has_row(*at)) {
      ++at;
      continue;
    }
    if (!budget_.has_room(rows_.all(), positions_of(at->request))) return;
    Submission next = std::move(*at);
    at = queue_.erase(at);
    start_task(std::move(next));
  }
}

void Engine::Impl::start_task(Submission submission) {
  Row* row = nullptr;
  try {
    prepare_row(submission.request, row);
  } catch (const std::exception&) {
    if (row && row->conversation == 0) row->text = std::make_shared<Text>();
    return end(std::move(submission), FinishReason::kFailed, std::current_exception());
  }
  row->task =
      std::make_unique<Task>(std::move(submission), *row->text,
                             Task::Context{clock_, limits_.capacity, options_.drafts.most, runs_ahead_});
}

void Engine::Impl::prepare_row(const Request& request, Row*& row) {
  const ConversationId id = request.conversation;
  if (id != 0) check(request.prompt, request.options, std::ssize(rows_.text(id).tokens));
  const int64_t unit = limits_.by_length_alone ? limits_.chunk : 1;
  row = &give_row(session_, rows_, budget_, request, positions_of(request),
                  options_.reuse_prefixes && !reads_again_ ? unit : 0);
  Text& text = *row->text;
  if (id != 0 && text.adapter != request.adapter) text.cached = text.shareable = 0;
  text.group = request.group, text.adapter = request.adapter;
  if (id == 0) store_.load(text, index_of(*row), request.prompt, std::ssize(request.prompt) - 1);
  text.tokens.insert(text.tokens.end(), request.prompt.begin(), request.prompt.end());
  // The last token is read again, at least.
  text.cached = reads_again_ ? 0 : std::min(text.cached, text.size() - 1);
}

// Reads prompts within the budget of a step. No step may be under way.
void Engine::Impl::read_prompts() {
  std::vector<size_t> reading = rows_.reading();
  std::vector<size_t> waiting;  // for another row that has the same prompt
  if (session_.model().find_entry(kCopyRow) && !reads_again_)
    std::ranges::copy_if(reading, std::back_inserter(waiting),
                         [&](size_t r) { return row_with_prompt_of(rows_.all(), r).has_value(); });
  std::erase_if(reading, [&](size_t r) { return std::ranges::count(waiting, r) > 0; });
  Decoding::First first;
  if (!reading.empty()) first = read_chunks(reading);
  copy_prompts_of(waiting);
  if (must_begin_)
    begin(std::move(first));
  else if (decoding_.goes_on() && !reading.empty())
    decoding_.continue_beside_reading();
}

void Engine::Impl::copy_prompts_of(const std::vector<size_t>& waiting) {
  try {
    for (const size_t r : copy_prompts(budget_, rows_.all(), waiting)) {
      rows_.all()[r].task->prompt_is_read();
      must_begin_ |= rows_.all()[r].goes_on();
    }
  } catch (const Error&) {
    fail_rows(waiting, std::current_exception());
  }
}

// Returns the step that reads the rest of a prompt and chooses its first token, if it is next.
Decoding::First Engine::Impl::read_chunks(const std::vector<size_t>& reading) {
  PromptReader reader(session_, rows_.all(), reading, limits_);
  try {
    for (const auto& [entry, size] : reader.plans())
      compile(entry, {{"seq", size}}, *rows_.all()[reading[0]].task);
    reader.fill_cache(
        options_.step_tokens, [&](size_t row) { budget_.trim(row); }, work_.prompts);
  } catch (const Error&) {
    fail_rows(reader.rows_of_next_chunk(), std::current_exception());
    return {};
  }
  Decoding::First first;
  for (const size_t r : reading) {
    if (!reader.has_read(r)) continue;
    first = reader.last();
    rows_.all()[r].task->prompt_is_read();
    must_begin_ |= rows_.all()[r].goes_on();
  }
  return first;
}

// Prepares decoding for the present rows. No step may be under way.
void Engine::Impl::begin(Decoding::First first) {
  must_begin_ = false;
  const auto any = std::ranges::find_if(rows_.all(), &Row::goes_on);
  if (any == rows_.all().end()) return;
  attempt([&] {
    compile(decoding_.entry(), {}, *any->task);
    compile_drafts(*any->task);
    decoding_.begin(std::move(first));
  });
}

// Builds a plan before it is needed, so that measured times contain only work on tokens.
void Engine::Impl::compile(const std::string& entry, const Bindings& sizes, Task& task) {
  if (compiled_.emplace(entry, sizes).second) compile_timed(task, [&] { session_.plan(entry, sizes); });
}

void Engine::Impl::compile_drafts(Task& task) {
  const DraftOptions& drafts = options_.drafts;
  if (!drafts.drafter) return;
  for (const std::string& entry : Speculation::entries(drafts.most)) compile(entry, {}, task);
  if (compiled_.emplace("", Bindings{}).second) compile_timed(task, [&] { drafts.drafter->compile(); });
}

template <class Body>
void Engine::Impl::compile_timed(Task& task, const Body& body) {
  double seconds = 0;
  {
    const Stopwatch watch(seconds);
    body();
  }
  task.add_compile_seconds(seconds);
  clock_.left_out += seconds;
}

// The cache of a row whose run failed may hold anything.
void Engine::Impl::fail_rows(const std::vector<size_t>& rows, const std::exception_ptr& error) {
  for (const size_t r : rows) {
    Row& row = rows_.all()[r];
    if (row.task && !row.task->is_done()) row.task->fail(error);
    row.text->cached = 0;
  }
}

// Ends the requests that made a decoding step fail, so that the next step can do without them.
void Engine::Impl::recover(const std::exception_ptr& error) {
  decoding_.forget();
  must_begin_ = true;
  if (fail_rows_of_nan(error)) return;
  std::vector<size_t> all;
  for (size_t r = 0; r < rows_.all().size(); ++r)
    if (rows_.all()[r].goes_on()) all.push_back(r);
  fail_rows(all, error);
}

// Returns false if there is no such row, so that the error has another reason.
bool Engine::Impl::fail_rows_of_nan(const std::exception_ptr& error) {
  if (rows_.all().size() == 1) return false;
  std::vector<size_t> bad;
  try {
    bad = decoding_.rows_of_nan();
  } catch (const Error&) {
    return false;
  }
  // A row that is free and empty cannot be blamed again and again.
  std::erase_if(bad, [&](size_t r) { return !rows_.all()[r].task && rows_.all()[r].text->cached == 0; });
  for (const size_t r : bad) fail_rows({r}, error_of_row(error, rows_.all()[r]));
  return !bad.empty();
}

// Frees the rows of tasks that are done, and passes on their results.
void Engine::Impl::deliver() {
  for (Row& row : rows_.all()) {
    if (!row.task || !row.task->is_done()) continue;
    ended_.push_back({row.task->take_result(), row.task->take_on_result(), row.task->polled()});
    release(row);
  }
  while (!ended_.empty()) {
    Ended ended = std::move(ended_.front());
    ended_.pop_front();
    const RequestId id = ended.result.request;
    if (ended.on_result)
      ended.on_result(std::move(ended.result));
    else
      finished_.emplace(id, std::move(ended));
  }
}

Progress Engine::Impl::poll(RequestId id) {
  if (const auto found = finished_.find(id); found != finished_.end()) {
    Ended ended = std::move(found->second);
    finished_.erase(found);
    const auto& tokens = ended.result.tokens;
    return {{tokens.begin() + static_cast<std::ptrdiff_t>(ended.polled), tokens.end()},
            std::move(ended.result)};
  }
  if (Row* row = rows_.find(id)) return {row->task->unpolled(), {}};
  const bool waits = std::ranges::count(queue_, id, &Submission::id) > 0 || inbox_.contains(id);
  if (!waits) fail("request {} is not known: its result was passed to on_result, or polled before", id);
  return {};
}

void Engine::Impl::clear() {
  const OneStep one(busy_);
  decoding_.forget();
  for (Row& row : rows_.all())
    if (row.task) release(row);
  inbox_.take();
  queue_.clear();
  ended_.clear();
  finished_.clear();
}

Load Engine::Impl::load() const {
  return {.queued = std::ssize(queue_) + inbox_.requests(),
          .reading = std::ranges::count_if(rows_.all(), &Row::is_reading),
          .decoding = std::ranges::count_if(rows_.all(), &Row::goes_on),
          .step_rows = decoding_.size(),
          .finished = std::ssize(finished_),
          .conversations = rows_.conversations(),
          .cache_bytes = budget_.used(),
          .prefix_bytes = store_.used()};
}

void Engine::Impl::check(const std::vector<int64_t>& prompt, const SamplingOptions& options,
                         int64_t behind) const {
  check_options(options);
  check_tokens(options, vocabulary_);
  check_prompt(prompt, behind, {vocabulary_, capacity()});
}

Engine::Engine(Session& session, EngineOptions options) : impl_(std::make_unique<Impl>(session, options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

RequestId Engine::submit(Request request) { return impl_->submit(std::move(request)); }
void Engine::cancel(RequestId id) { impl_->cancel(id); }
bool Engine::step() { return impl_->step(); }
bool Engine::is_idle() const { return impl_->is_idle(); }
bool Engine::wait(double seconds) const { return impl_->wait(seconds); }
Progress Engine::poll(RequestId id) { return impl_->poll(id); }
void Engine::clear() { impl_->clear(); }
ConversationId Engine::open_conversation() { return impl_->rows().open(); }
void Engine::close_conversation(ConversationId id) { impl_->rows().close(id); }
void Engine::truncate_conversation(ConversationId id, int64_t length) { impl_->rows().truncate(id, length); }
const std::vector<int64_t>& Engine::conversation_tokens(ConversationId id) const {
  return impl_->rows().text(id).tokens;
}
void Engine::check(const std::vector<int64_t>& prompt, const SamplingOptions& options, int64_t behind) const {
  impl_->check(prompt, options, behind);
}
Load Engine::load() const { return impl_->load(); }
const Work& Engine::work() const { return impl_->work(); }
int64_t Engine::rows() const { return std::ssize(impl_->rows().all()); }
void Engine::grow_cache(int64_t positions) { impl_->grow_cache(positions); }
int64_t Engine::capacity() const { return impl_->capacity(); }
int64_t Engine::vocab_size() const { return impl_->vocab_size(); }

}  // namespace genesis::generation
