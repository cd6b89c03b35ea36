#include "models/generation/generator.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "executor/generation/engine.h"
#include "models/generation/answer.h"
#include "models/generation/packed_prompts.h"
#include "models/generation/sampling_entries.h"
#include "models/generation/verify_entries.h"
#include "passes/core/cache_size.h"
#include "schema/messages/log.h"

namespace genesis::text {
namespace {

using OnResult = std::function<void(size_t, GenerateResult)>;

// Batches are made for throughput: a prompt is read at once, and the other texts wait.
generation::EngineOptions engine_options(const GeneratorOptions& options, const Model& model) {
  generation::EngineOptions engine = {.prefill_chunk = options.prefill_chunk,
                                      .step_tokens = std::numeric_limits<int64_t>::max(),
                                      .run_ahead = options.run_ahead};
  engine.drafts.most = options.draft_tokens;
  if (options.drafter)
    engine.drafts.drafter = options.drafter({rows_of_cache(model), positions_of_cache(model)});
  return engine;
}

}  // namespace

class Generator::Impl {
 public:
  Impl(Session& session, GeneratorOptions options)
      : options_(std::move(options)),
        engine_(session, engine_options(options_, session.model())),
        text_(engine_.open_conversation()) {}

  void check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const {
    check(prompt, options, std::ssize(tokens()));
  }
  GenerateResult continue_with(const Request& request) {
    check(request.prompt, request.options);
    GenerateResult result;
    run([&] { submit(request, text_, [&](GenerateResult made) { result = std::move(made); }); });
    return result;
  }
  void generate_each(const NextRequest& next, const OnResult& on_result);
  std::vector<GenerateResult> generate_all(
      std::span<const Request> requests, const std::function<void(size_t, const GenerateResult&)>& on_result);

  GenerateResult continue_prompt(Request request);
  void rewind(int64_t length) {
    engine_.truncate_conversation(text_, length);
    whole_prompt_ = std::min(whole_prompt_, length);
  }
  const std::vector<int64_t>& tokens() const { return engine_.conversation_tokens(text_); }
  const generation::Engine& engine() const { return engine_; }
  void grow(int64_t positions) { engine_.grow_cache(positions); }

 private:
  void check(const std::vector<int64_t>& prompt, const GenerateOptions& options, int64_t behind) const;
  void check_request(const Request& request, size_t number) const {
    with_context([&] { check(request.prompt, request.options, 0); },
                 [&] { return fmt::format("request {}", number); });
  }
  void submit(const Request& request, generation::ConversationId text,
              std::function<void(GenerateResult)> on_result);
  void run(const std::function<void()>& submit_first);

  const GeneratorOptions options_;
  generation::Engine engine_;
  const generation::ConversationId text_;  // the text so far
  int64_t whole_prompt_ = 0;  // its first tokens that were read as one prompt of this size, if any
};

GenerateResult Generator::Impl::continue_prompt(Request request) {
  const auto size = std::ssize(request.prompt);
  const bool is_read = size > 0 && whole_prompt_ == size && std::ssize(tokens()) >= size &&
                       std::equal(request.prompt.begin(), request.prompt.end(), tokens().begin());
  rewind(is_read ? size : 0);
  if (is_read) request.prompt.clear();
  GenerateResult result = continue_with(request);
  whole_prompt_ = request.options.max_tokens > 0 ? size : 0;
  return result;
}

void Generator::Impl::submit(const Request& request, generation::ConversationId text,
                             std::function<void(GenerateResult)> on_result) {
  const auto answer = std::make_shared<Answer>(options_.text ? options_.text() : TokenText(), request.options,
                                               request.on_piece);
  const auto on_token = [answer](const generation::NewToken& token) { return answer->take(token.token); };
  const auto on_end = [answer, on_result = std::move(on_result)](generation::Result result) {
    if (result.error) std::rethrow_exception(result.error);
    on_result(answer->finish(std::move(result)));
  };
  engine_.submit({.prompt = request.prompt,
                  .options = request.options,
                  .on_token = on_token,
                  .on_result = on_end,
                  .conversation = text,
                  .shares_prompt = request.shares_prompt});
}

// Runs until all requests have ended. An exception drops the others.
void Generator::Impl::run(const std::function<void()>& submit_first) {
  try {
    submit_first();
    while (engine_.step()) {
    }
  } catch (...) {
    engine_.clear();
    throw;
  }
}

// A request is asked for when a row is free, so that few of them are kept.
void Generator::Impl::generate_each(const NextRequest& next, const OnResult& on_result) {
  rewind(0);
  size_t number = 0;
  bool is_over = false;
  const std::function<void()> submit_next = [&] {
    std::optional<Request> request = is_over ? std::nullopt : next();
    is_over = !request;
    if (is_over) return;
    check_request(*request, number);
    submit(*request, 0, [&, i = number++](GenerateResult result) {
      on_result(i, std::move(result));
      submit_next();
    });
  };
  run([&] {
    for (int64_t row = 0; row < engine_.rows(); ++row) submit_next();
  });
}

std::vector<GenerateResult> Generator::Impl::generate_all(
    std::span<const Request> requests, const std::function<void(size_t, const GenerateResult&)>& on_result) {
  for (size_t i = 0; i < requests.size(); ++i) check_request(requests[i], i);
  std::vector<GenerateResult> results(requests.size());
  const auto next = [at = requests.begin(), requests]() mutable {
    return at == requests.end() ? std::nullopt : std::optional<Request>(*at++);
  };
  generate_each(next, [&](size_t i, GenerateResult result) {
    results[i] = std::move(result);
    if (on_result) on_result(i, results[i]);
  });
  return results;
}

void Generator::Impl::check(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                            int64_t behind) const {
  check_options(options);
  if (!options.stop_strings.empty() && !options_.text)
    fail("stop strings are looked for in text, but this generator makes tokens only");
  engine_.check(prompt, options, behind);
}

namespace {

// Adds steps of fewer rows to the session, down to 2 on the CPU. On a GPU 8 rows take about as long as one, and an entry point that reads
// several prompts is added, too. A file may come with entry points that choose tokens, and then has them for all rows only; a `decode`
// that cannot be written for fewer rows stays as it is.
Session with_narrow_steps(Session session, const std::shared_ptr<const Model>& plain) {
  if (plain->find_entry(kFillCache)) return session;
  const int64_t least = session.is_asynchronous() ? 8 : 2;
  try {
    for (int64_t rows = rows_of_cache(*plain) / 2; rows >= least; rows /= 2)
      session.add_entries(steps_of_first_rows(*plain, rows));
  } catch (const Error& error) {
    log_debug("steps have all rows of the cache: {}", error.message());
  }
  if (!session.is_asynchronous() || rows_of_cache(*plain) < 2) return session;
  try {
    if (const auto packed = packed_prompts(session.model())) session.add_entries(packed);
  } catch (const Error& error) {
    log_debug("prompts are read one by one: {}", error.message());
  }
  return session;
}

}  // namespace

Session open_for_generation(const std::shared_ptr<const Model>& model, SessionOptions options,
                            bool verifies) {
  std::shared_ptr<const Model> made = model;
  if (model && options.cache) made = passes::with_cache_size(*model, *options.cache);
  const std::shared_ptr<const Model> plain = std::exchange(made, with_sampling_entries(made));
  const bool is_alone = options.mesh.ranks() == 1;
  if (!verifies) {
    Session session(made, std::move(options));
    return is_alone ? with_narrow_steps(std::move(session), plain) : std::move(session);
  }
  if (options.mesh.ranks() > 1)
    fail("drafts are not verified by several ranks: leave out the mesh, or the drafts");
  options = resolved(std::move(options));
  const bool exact = options.device == "cpu";
  return Session(with_verify_entries(made, exact), std::move(options));
}

Generator::Generator(Session& session, GeneratorOptions options)
    : impl_(std::make_unique<Impl>(session, std::move(options))) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;

GenerateResult Generator::continue_with(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                                        const std::function<bool(const Piece&)>& on_piece) {
  return impl_->continue_with({prompt, options, on_piece});
}
GenerateResult Generator::continue_prompt(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                                          const std::function<bool(const Piece&)>& on_piece) {
  return impl_->continue_prompt({prompt, options, on_piece});
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
const std::vector<int64_t>& Generator::tokens() const { return impl_->tokens(); }
int64_t Generator::rows() const { return impl_->engine().rows(); }
int64_t Generator::capacity() const { return impl_->engine().capacity(); }
int64_t Generator::vocab_size() const { return impl_->engine().vocab_size(); }

GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(const Piece&)>& on_piece) {
  return Generator(session).continue_with(prompt, options, on_piece);
}

std::vector<int64_t> encode_bytes(const std::string& text) {
  std::vector<int64_t> tokens;
  for (unsigned char c : text) tokens.push_back(c);
  return tokens;
}

std::string decode_bytes(const std::vector<int64_t>& tokens) {
  std::string text;
  for (int64_t token : tokens) text += static_cast<char>(token);
  return text;
}

TokenText byte_text() {
  return {.add = [](int64_t token) { return std::string(1, static_cast<char>(token)); }, .finish = {}};
}

}  // namespace genesis::text
