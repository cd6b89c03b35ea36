#include "models/text/generate.h"

#include <chrono>
#include <limits>

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

// The length of the cache: states of role kCache are [batch, positions, heads, head_size].
int64_t capacity(const Model& model) {
  for (const State& state : model.states())
    if (state.role == StateRole::kCache && state.type.shape.rank() == 4) return state.type.shape[1].value();
  return std::numeric_limits<int64_t>::max();
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
    compile(static_cast<int64_t>(prompt.size()));
    result_.compile_seconds = seconds_since(start);
    start = Clock::now();
    int64_t next = sample(step("prefill", prompt));
    result_.prefill_seconds = seconds_since(start);
    while (accept(next, on_token) && !cache_is_full()) {  // what on_token does with it takes its own time
      start = Clock::now();
      next = sample(step("decode", {next}));
      result_.decode_seconds += seconds_since(start);
      ++result_.decoded;
    }
    return std::move(result_);
  }

 private:
  // All plans that the text will need, so that what is timed is work on tokens.
  void compile(int64_t prompt_tokens) {
    if (options_.max_tokens > 1) session_.plan("decode", inputs(std::vector<int64_t>(1)));
    session_.plan("prefill", inputs(std::vector<int64_t>(static_cast<size_t>(prompt_tokens))));
    settings_["logits"] = Tensor::zeros(logits_type(session_));
    sampler_.plan("sample", settings_);
  }

  NamedTensors inputs(const std::vector<int64_t>& tokens) const {
    return {{"tokens", Tensor::of<int64_t>({1, static_cast<int64_t>(tokens.size())}, tokens)},
            {"position", Tensor::scalar<int64_t>(position_)}};
  }

  static TensorType logits_type(Session& session) {
    Graph& decode = const_cast<Graph&>(session.model().entry("decode"));
    return decode.output("logits").type();
  }

  Tensor step(const char* entry, const std::vector<int64_t>& tokens) {
    const NamedTensors outputs = session_.run(entry, inputs(tokens));
    position_ += static_cast<int64_t>(tokens.size());
    return outputs.at("logits");
  }

  int64_t sample(const Tensor& logits) {
    settings_["logits"] = logits;
    return sampler_.run("sample", settings_).at("token").item<int64_t>();
  }

  bool accept(int64_t token, const std::function<bool(int64_t)>& on_token) {
    if (options_.max_tokens <= 0) return false;
    result_.tokens.push_back(token);
    if (on_token && !on_token(token)) return false;
    return static_cast<int64_t>(result_.tokens.size()) < options_.max_tokens;
  }

  bool cache_is_full() {
    result_.cache_full = position_ >= capacity(session_.model());
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

void check_generate(const Session& session, const std::vector<int64_t>& prompt,
                    const GenerateOptions& options) {
  if (prompt.empty()) fail("the prompt is empty: a language model needs at least one token to go on from");
  for (const char* entry : {"prefill", "decode"})
    if (!session.model().find_entry(entry))
      fail("the model has no entry point '{}': it cannot generate text", entry);
  if (options.max_tokens < 0) fail("max_tokens is {}, it must not be negative", options.max_tokens);
  if (!(options.temperature >= 0) || options.top_k < 0 || !(options.top_p > 0 && options.top_p <= 1))
    fail("temperature {} and top_k {} must not be negative, top_p {} must be in (0, 1]", options.temperature,
         options.top_k, options.top_p);
  const int64_t most = capacity(session.model());
  if (static_cast<int64_t>(prompt.size()) > most)
    fail(
        "the prompt has {} tokens, the model's KV cache holds {}: give {} tokens or fewer, or build the "
        "model "
        "with a longer cache",
        prompt.size(), most, most);
}

GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(int64_t)>& on_token) {
  check_generate(session, prompt, options);
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
