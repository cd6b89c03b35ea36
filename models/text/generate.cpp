#include "models/text/generate.h"

#include <chrono>

#include "builder/genesis.h"

namespace genesis::text {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// logits f32[1, vocab] -> token, with the settings as data: one small graph for all of them.
std::shared_ptr<Model> make_sampler(const TensorType& logits, uint64_t seed) {
  auto model = std::make_shared<Model>();
  const Parameter rng = Scope(*model, seed).rng();
  GraphBuilder g(*model, "sample");
  const Value x = g.input("logits", logits.dtype, logits.shape);
  const Value temperature = g.input("temperature", DType::f32, {}), top_k = g.input("top_k", DType::i64, {}),
              top_p = g.input("top_p", DType::f32, {});
  g.output("token", random_sample(g.value(rng), cast(x, DType::f32), temperature, top_k, top_p));
  g.update(rng, rng_next(g.value(rng)));
  return model;
}

class Generator {
 public:
  Generator(Session& session, const GenerateOptions& options)
      : session_(session),
        options_(options),
        sampler_(make_sampler(logits_type(session), options.seed)),
        settings_{{"temperature", Tensor::scalar<float>(static_cast<float>(options.temperature))},
                  {"top_k", Tensor::scalar<int64_t>(options.top_k)},
                  {"top_p", Tensor::scalar<float>(static_cast<float>(options.top_p))}} {}

  GenerateResult run(const std::vector<int64_t>& prompt, const std::function<bool(int64_t)>& on_token) {
    session_.reset_states(StateRole::kCache);
    auto start = Clock::now();
    int64_t next = sample(step("prefill", prompt));
    result_.prefill_seconds = seconds_since(start);
    start = Clock::now();
    while (accept(next, on_token) && !cache_is_full()) next = sample(step("decode", {next}));
    result_.decode_seconds = seconds_since(start);
    return std::move(result_);
  }

 private:
  static TensorType logits_type(Session& session) {
    Graph& decode = const_cast<Graph&>(session.model().entry("decode"));
    return decode.output("logits").type();
  }

  // The length of the cache: states of role kCache are [batch, positions, heads, head_size].
  int64_t capacity() const {
    for (const State& state : session_.model().states())
      if (state.role == StateRole::kCache && state.type.shape.rank() == 4) return state.type.shape[1].value();
    return std::numeric_limits<int64_t>::max();
  }

  Tensor step(const char* entry, const std::vector<int64_t>& tokens) {
    const auto count = static_cast<int64_t>(tokens.size());
    if (position_ + count > capacity())
      fail("the prompt has {} tokens, the model's KV cache holds {}: build the model with a longer one",
           count, capacity());
    const NamedTensors outputs = session_.run(entry, {{"tokens", Tensor::of<int64_t>({1, count}, tokens)},
                                                      {"position", Tensor::scalar<int64_t>(position_)}});
    position_ += count;
    return outputs.at("logits");
  }

  int64_t sample(const Tensor& logits) {
    settings_["logits"] = logits;
    return sampler_.run("sample", settings_).at("token").as<int64_t>()[0];
  }

  bool accept(int64_t token, const std::function<bool(int64_t)>& on_token) {
    if (options_.max_tokens <= 0) return false;
    result_.tokens.push_back(token);
    if (on_token && !on_token(token)) return false;
    return static_cast<int64_t>(result_.tokens.size()) < options_.max_tokens;
  }

  bool cache_is_full() {
    result_.cache_full = position_ >= capacity();
    return result_.cache_full;
  }

  Session& session_;
  GenerateOptions options_;
  Session sampler_;
  NamedTensors settings_;
  GenerateResult result_;
  int64_t position_ = 0;
};

}  // namespace

GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(int64_t)>& on_token) {
  if (prompt.empty()) fail("the prompt is empty: a language model needs at least one token to go on from");
  for (const char* entry : {"prefill", "decode"})
    if (!session.model().find_entry(entry))
      fail("the model has no entry point '{}': it cannot generate text", entry);
  if (options.max_tokens < 0) fail("max_tokens is {}, it must not be negative", options.max_tokens);
  if (!(options.temperature >= 0) || options.top_k < 0 || !(options.top_p > 0 && options.top_p <= 1))
    fail("temperature {} and top_k {} must not be negative, top_p {} must be in (0, 1]", options.temperature,
         options.top_k, options.top_p);
  return Generator(session, options).run(prompt, on_token);
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

}  // namespace genesis::text
