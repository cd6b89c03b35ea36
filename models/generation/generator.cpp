#include "models/generation/generator.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <set>

#include "models/generation/decoding.h"
#include "models/generation/prompt_reader.h"
#include "models/generation/sampling_entries.h"
#include "models/generation/vocabulary.h"
#include "passes/core/cache_size.h"

namespace genesis::text {
namespace {

size_t checked_rows(const Model& model) {
  if (!model.find_entry(kFillCache))
    fail("the session's model has no entry point '{}': open it with open_for_generation()", kFillCache);
  return static_cast<size_t>(rows_of_cache(model));
}

using OnResult = std::function<void(size_t, GenerateResult)>;

}  // namespace

class Generator::Impl {
 public:
  Impl(Session& session, GeneratorOptions options)
      : session_(session), options_(std::move(options)), rows_(checked_rows(session.model())) {
    const Model& model = session.model();
    vocabulary_ = vocabulary_of(model.entry("decode"), 2);
    for (Row& row : rows_) row.text.capacity = positions_of_cache(model);
    if (options_.prefill_chunk < 1 || !std::has_single_bit(static_cast<uint64_t>(options_.prefill_chunk)))
      fail("a prefill chunk of {} tokens: expected a power of two", options_.prefill_chunk);
    session.reset_states(StateRole::kCache);
  }

  void check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const {
    check(prompt, options, text().size());
  }
  GenerateResult continue_with(Request request) {
    check(request.prompt, request.options);
    GenerateResult result;
    std::optional<Request> only = std::move(request);
    run([&] { return std::exchange(only, std::nullopt); }, false,
        [&](size_t, GenerateResult made) { result = std::move(made); });
    return result;
  }
  void generate_each(const NextRequest& next, const OnResult& on_result) {
    rewind(0);
    size_t number = 0;
    const auto checked_next = [&] {
      std::optional<Request> request = next();
      if (request) check_request(*request, number++);
      return request;
    };
    run(checked_next, true, on_result);
  }
  std::vector<GenerateResult> generate_all(
      std::span<const Request> requests,
      const std::function<void(size_t, const GenerateResult&)>& on_result) {
    for (size_t i = 0; i < requests.size(); ++i) check_request(requests[i], i);
    rewind(0);
    std::vector<GenerateResult> results(requests.size());
    const auto next = [at = requests.begin(), requests]() mutable {
      return at == requests.end() ? std::nullopt : std::optional<Request>(*at++);
    };
    run(next, true, [&](size_t i, GenerateResult result) {
      results[i] = std::move(result);
      if (on_result) on_result(i, results[i]);
    });
    return results;
  }
  void rewind(int64_t length) {
    TextSoFar& text = rows_[0].text;
    if (length < 0 || length > text.size())
      fail("the text cannot be rewound to {} tokens: it has {}", length, text.size());
    text.tokens.resize(static_cast<size_t>(length));
    text.cached = std::min(text.cached, length);
  }

  void grow(int64_t positions) {
    session_.grow_cache(positions);
    for (Row& row : rows_) row.text.capacity = positions_of_cache(session_.model());
    compiled_.clear();
  }

  const TextSoFar& text() const { return rows_[0].text; }
  int64_t rows() const { return std::ssize(rows_); }
  int64_t vocab_size() const { return vocabulary_; }

 private:
  // The state of one call: its requests, and their distribution to rows.
  struct Work {
    const NextRequest& next;
    bool forgets;  // drop the texts so far
    const OnResult& on_result;
    std::optional<Request> waiting = {};  // taken from `next`, but without a row yet
    bool is_over = false;                 // there are no more requests
    size_t taken = 0;                     // requests that have or had a row
    WorkClock clock = {};

    bool has_next() {
      if (!waiting && !is_over) waiting = next();
      is_over = !waiting;
      return !is_over;
    }
  };

  bool runs_ahead() const { return options_.run_ahead.value_or(session_.is_asynchronous()); }
  void check(const std::vector<int64_t>& prompt, const GenerateOptions& options, int64_t behind) const;
  void check_request(const Request& request, size_t number) const {
    with_context([&] { check(request.prompt, request.options, 0); },
                 [&] { return fmt::format("request {}", number); });
  }
  void run(const NextRequest& next, bool forgets, const OnResult& on_result);
  void begin(Work& work, Decoding& decoding);
  void take_request(Work& work, Row& row);
  void collect(Work& work);
  void compile(const std::string& entry, const Bindings& sizes);

  Session& session_;
  GeneratorOptions options_;
  std::vector<Row> rows_;
  int64_t vocabulary_ = 0;
  std::set<std::pair<std::string, Bindings>> compiled_;
};

void Generator::Impl::run(const NextRequest& next, bool forgets, const OnResult& on_result) {
  Work work{next, forgets, on_result};
  const auto leave = [forgets](std::vector<Row>* rows) {
    for (Row& row : *rows) {
      row.answer.reset();
      row.request = {};
      if (forgets) row.text.tokens.clear(), row.text.cached = 0;
    }
  };
  const std::unique_ptr<std::vector<Row>, decltype(leave)> at_end(&rows_, leave);
  Decoding decoding(session_, rows_, vocabulary_, runs_ahead());
  const auto rests = [](const Row& row) { return !row.answer; };
  do {
    collect(work);
    if (std::ranges::none_of(rows_, rests) || !work.has_next()) continue;
    decoding.drain();
    collect(work);
    begin(work, decoding);
  } while (decoding.step() || work.has_next());
  collect(work);
}

// Removes finished answers from their rows and passes on their results.
void Generator::Impl::collect(Work& work) {
  for (Row& row : rows_) {
    if (!row.answer || row.goes_on()) continue;
    row.answer.reset();
    work.on_result(row.number, std::move(row.result));
  }
}

// Gives requests to idle rows, and reads their prompts.
void Generator::Impl::begin(Work& work, Decoding& decoding) {
  std::vector<size_t> fresh;
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].answer || !work.has_next()) continue;
    take_request(work, rows_[r]);
    fresh.push_back(r);
  }
  PromptReader reader(session_, rows_, fresh, options_.prefill_chunk);
  double& compile_seconds = rows_[fresh[0]].result.compile_seconds;
  {
    const Stopwatch watch(compile_seconds);
    for (const auto& [entry, size] : reader.plans()) compile(entry, {{"seq", size}});
    if (decoding.goes_on()) compile(decode_name(decoding.features()), {});
  }
  work.clock.left_out += compile_seconds;
  reader.fill_cache();
  decoding.begin(reader.last());
  for (const size_t r : fresh) rows_[r].answer->prompt_is_read();
}

void Generator::Impl::take_request(Work& work, Row& row) {
  row.request = std::move(*work.waiting);
  work.waiting.reset();
  row.number = work.taken++;
  const Request& request = row.request;
  TextSoFar& text = row.text;
  if (work.forgets) text.tokens.clear(), text.cached = 0;
  text.tokens.insert(text.tokens.end(), request.prompt.begin(), request.prompt.end());
  text.cached = std::min(text.cached, text.size() - 1);  // the last token is read again, at least
  // Rotated keys depend on the length of the text that they were read in.
  if (takes_text_length(session_.model())) text.cached = 0;
  row.result = {};
  row.result.prefilled = text.size() - text.cached;
  row.answer.emplace(text, request,
                     Answer::Context{options_.text ? options_.text() : TokenText(), work.clock, runs_ahead()},
                     row.result);
}

void Generator::Impl::check(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                            int64_t behind) const {
  check_options(options);
  if (!options.stop_strings.empty() && !options_.text)
    fail("stop strings are looked for in text, but this generator makes tokens only");
  if (prompt.empty() && behind == 0)
    fail("the prompt is empty: a language model needs at least one token to go on from");
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= vocabulary_)
      fail("token {} at place {} of the prompt is not in the model's vocabulary of {}", prompt[i], i,
           vocabulary_);
  const int64_t length = behind + static_cast<int64_t>(prompt.size()), capacity = text().capacity;
  if (length > capacity)
    fail(
        "the prompt makes a text of {} tokens, the model's KV cache holds {}: give {} tokens or fewer, or "
        "--context N where the model can read more (`genesis-run generate --truncate` reads the end of it)",
        length, capacity, capacity - behind);
}

// Builds a plan before it is needed, so that measured times contain only work on tokens.
void Generator::Impl::compile(const std::string& entry, const Bindings& sizes) {
  if (compiled_.emplace(entry, sizes).second) session_.plan(entry, sizes);
}

Session open_for_generation(const std::shared_ptr<const Model>& model, SessionOptions options) {
  if (!model || !options.cache) return Session(with_sampling_entries(model), std::move(options));
  const std::shared_ptr<const Model> sized = passes::with_cache_size(*model, *options.cache);
  return Session(with_sampling_entries(sized), std::move(options));
}

Generator::Generator(Session& session, GeneratorOptions options)
    : impl_(std::make_unique<Impl>(session, std::move(options))) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;

GenerateResult Generator::continue_with(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                                        const std::function<bool(const Piece&)>& on_piece) {
  return impl_->continue_with({prompt, options, on_piece});
}
void Generator::generate_each(const NextRequest& next, const OnResult& on_result) {
  impl_->generate_each(next, on_result);
}
std::vector<GenerateResult> Generator::generate_all(
    std::span<const Request> requests, const std::function<void(size_t, const GenerateResult&)>& on_result) {
  return impl_->generate_all(requests, on_result);
}
void Generator::check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const {
  impl_->check(prompt, options);
}
void Generator::grow(int64_t positions) { impl_->grow(positions); }
void Generator::rewind(int64_t length) { impl_->rewind(length); }
const std::vector<int64_t>& Generator::tokens() const { return impl_->text().tokens; }
int64_t Generator::rows() const { return impl_->rows(); }
int64_t Generator::capacity() const { return impl_->text().capacity; }
int64_t Generator::vocab_size() const { return impl_->vocab_size(); }

}  // namespace genesis::text
