#include "models/text/generator.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "models/text/answer.h"
#include "models/text/prefill_chunks.h"
#include "models/text/sampling_entries.h"
#include "models/text/stopwatch.h"

namespace genesis::text {
namespace {

// Caches of keys and values are states [rows, positions, heads, head_size].
int64_t positions_of(const Model& model) {
  int64_t positions = std::numeric_limits<int64_t>::max();
  for (const State& state : model.states())
    if (state.role == StateRole::kCache && state.type.shape.rank() == 4)
      positions = std::min(positions, state.type.shape[1].value());
  return positions;
}

}  // namespace

class Generator::Impl {
 public:
  Impl(Session& session, GeneratorOptions options) : session_(session), options_(std::move(options)) {
    const Model& model = session.model();
    const int32_t chosen = model.find_state("sampling.chosen");
    if (!model.find_entry(kFillCache) || chosen < 0)
      fail("the session's model has no entry point '{}': open it with open_for_generation()", kFillCache);
    vocabulary_ = model.state(chosen).type.shape[0].value();
    text_.capacity = positions_of(model);
    if (options_.prefill_chunk < 1 || !std::has_single_bit(static_cast<uint64_t>(options_.prefill_chunk)))
      fail("a prefill chunk of {} tokens: expected a power of two", options_.prefill_chunk);
    session.reset_states(StateRole::kCache);
  }

  void check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const;
  GenerateResult continue_with(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                               const std::function<bool(const Piece&)>& on_piece);
  void rewind(int64_t length) {
    if (length < 0 || length > text_.size())
      fail("the text cannot be rewound to {} tokens: it has {}", length, text_.size());
    text_.tokens.resize(static_cast<size_t>(length));
    text_.cached = std::min(text_.cached, length);
  }

  const TextSoFar& text() const { return text_; }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  bool runs_ahead() const { return options_.run_ahead.value_or(session_.runs_beside_host()); }
  // A run that reads tokens of the text: `count` from `at` on, padded to `size`.
  struct Chunk {
    std::string entry;
    int64_t at, size, count;
  };
  std::vector<Chunk> chunks_to_read(const GenerateOptions& options) const;
  void compile(const std::string& entry, const Bindings& sizes);
  void set_up(const GenerateOptions& options);
  NamedTensors inputs_of(const Chunk& chunk) const;
  void fill_cache(const Chunk& chunk);

  Session& session_;
  GeneratorOptions options_;
  int64_t vocabulary_ = 0;
  TextSoFar text_;
  std::set<std::pair<std::string, Bindings>> compiled_;
};

// What is read before the first token is there: runs of fill_cache, and perhaps one of prefill_and_sample.
std::vector<Generator::Impl::Chunk> Generator::Impl::chunks_to_read(const GenerateOptions& options) const {
  std::vector<Chunk> chunks;
  const bool samples = options.max_tokens > 0;
  const std::string prefill = prefill_name(features_of(options));
  const bool has_prefill = session_.model().find_entry(prefill) != nullptr;
  const int64_t end = text_.size() - (samples && !has_prefill ? 1 : 0);
  for (int64_t at = text_.cached; at < end; at += chunks.back().count) {
    const int64_t size = next_chunk(end - at, text_.capacity - at, options_.prefill_chunk);
    chunks.push_back({kFillCache, at, size, std::min(size, end - at)});
  }
  if (!samples || !has_prefill) return chunks;
  chunks.back().entry = prefill;
  if (chunks.back().count == 1) chunks.pop_back();  // a step of decode_and_sample reads it
  return chunks;
}

GenerateResult Generator::Impl::continue_with(const std::vector<int64_t>& prompt,
                                              const GenerateOptions& options,
                                              const std::function<bool(const Piece&)>& on_piece) {
  check(prompt, options);
  text_.tokens.insert(text_.tokens.end(), prompt.begin(), prompt.end());
  text_.cached = std::min(text_.cached, text_.size() - 1);  // the last token is read again, at least
  GenerateResult result;
  result.prefilled = text_.size() - text_.cached;
  const std::vector<Chunk> chunks = chunks_to_read(options);
  {
    const Stopwatch watch(result.compile_seconds);
    set_up(options);
    for (const Chunk& chunk : chunks) compile(chunk.entry, {{"seq", chunk.size}});
    if (options.max_tokens > 0) compile(decode_name(features_of(options)), {});
  }
  Answer::Prefill first;
  {
    const Stopwatch watch(result.prefill_seconds);
    for (const Chunk& chunk : chunks)
      if (chunk.entry == kFillCache)
        fill_cache(chunk);
      else
        first = {chunk.entry, inputs_of(chunk)};
  }
  if (options.max_tokens == 0) return result;
  Answer(session_, text_, options,
         {std::move(first), runs_ahead(), options_.text ? options_.text() : TokenText(), on_piece}, result)
      .run();
  return result;
}

void Generator::Impl::check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const {
  check_options(options);
  if (!options.stop_strings.empty() && !options_.text)
    fail("stop strings are looked for in text, but this generator makes tokens only");
  if (prompt.empty() && text_.tokens.empty())
    fail("the prompt is empty: a language model needs at least one token to go on from");
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= vocabulary_)
      fail("token {} at place {} of the prompt is none of the model's: its vocabulary has {}", prompt[i], i,
           vocabulary_);
  const int64_t length = text_.size() + static_cast<int64_t>(prompt.size());
  if (length > text_.capacity)
    fail(
        "the prompt makes a text of {} tokens, the model's KV cache holds {}: give {} tokens or fewer, or "
        "build "
        "the model with a longer cache",
        length, text_.capacity, text_.capacity - text_.size());
}

// All plans that the text will need are made ahead, so that what is timed is work on tokens.
void Generator::Impl::compile(const std::string& entry, const Bindings& sizes) {
  if (compiled_.emplace(entry, sizes).second) session_.plan(entry, sizes);
}

// The states that the steps of this answer start from.
void Generator::Impl::set_up(const GenerateOptions& o) {
  const auto set = [&](const char* state, const Tensor& value) { session_.set_state(state, value); };
  const auto number = [](double value) { return Tensor::scalar<float>(static_cast<float>(value)); };
  set("sampling.rng", Tensor::of<int64_t>({2}, {static_cast<int64_t>(o.seed), text_.size() - 1}));
  set("sampling.token", Tensor::of<int64_t>({1}, {text_.tokens.back()}));
  set("sampling.temperature", number(o.temperature));
  set("sampling.top_k", Tensor::scalar<int64_t>(o.top_k));
  set("sampling.top_p", number(o.top_p));
  set("sampling.min_p", number(o.min_p));
  if (!has_penalties(o)) return;
  const std::vector<double> penalties = {o.repetition_penalty, o.presence_penalty, o.frequency_penalty};
  set("sampling.penalties", Tensor::of<float>({3}, {penalties.begin(), penalties.end()}));
  std::vector<int32_t> counts(static_cast<size_t>(vocabulary_), 0);
  set("sampling.chosen", Tensor::of<int32_t>({vocabulary_}, counts));
  for (const int64_t token : text_.tokens) ++counts[static_cast<size_t>(token)];
  set("sampling.in_prompt", Tensor::of<int32_t>({vocabulary_}, counts));
}

NamedTensors Generator::Impl::inputs_of(const Chunk& chunk) const {
  const auto begin = text_.tokens.begin() + chunk.at;
  std::vector<int64_t> tokens(begin, begin + chunk.count);
  tokens.resize(static_cast<size_t>(chunk.size), 0);
  NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({1, chunk.size}, tokens)},
                         {"position", Tensor::scalar<int64_t>(chunk.at)}};
  if (chunk.entry != kFillCache) inputs.emplace("last", Tensor::scalar<int64_t>(chunk.count - 1));
  return inputs;
}

void Generator::Impl::fill_cache(const Chunk& chunk) {
  session_.run(chunk.entry, inputs_of(chunk));
  text_.cached = chunk.at + chunk.count;
}

Session open_for_generation(const std::shared_ptr<const Model>& model, SessionOptions options) {
  return Session(with_sampling_entries(model), std::move(options));
}

Generator::Generator(Session& session, GeneratorOptions options)
    : impl_(std::make_unique<Impl>(session, std::move(options))) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;

GenerateResult Generator::continue_with(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                                        const std::function<bool(const Piece&)>& on_piece) {
  return impl_->continue_with(prompt, options, on_piece);
}
void Generator::check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const {
  impl_->check(prompt, options);
}
void Generator::rewind(int64_t length) { impl_->rewind(length); }
const std::vector<int64_t>& Generator::tokens() const { return impl_->text().tokens; }
int64_t Generator::capacity() const { return impl_->text().capacity; }
int64_t Generator::vocabulary() const { return impl_->vocabulary(); }

}  // namespace genesis::text
