#include "models/qwen.h"

#include <cmath>

#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/decoder.h"

namespace genesis::models {
namespace {

class SelfAttention : public nn::Module<SelfAttention> {
 public:
  SelfAttention(const Scope& s, const QwenConfig& c, int64_t window, const init::Init& init)
      : Module(s),
        config_(c),
        window_(window),
        q_proj_(s / "q_proj", c.hidden_size, c.num_attention_heads * c.head_size(),
                {.bias = c.attention_bias, .init = init}),
        k_proj_(s / "k_proj", c.hidden_size, c.num_key_value_heads * c.head_size(),
                {.bias = c.attention_bias, .init = init}),
        v_proj_(s / "v_proj", c.hidden_size, c.num_key_value_heads * c.head_size(),
                {.bias = c.attention_bias, .init = init}),
        o_proj_(s / "o_proj", c.num_attention_heads * c.head_size(), c.hidden_size,
                {.bias = false, .init = init}),
        cache_(s, c.cache_size(), c.num_key_value_heads, c.head_size()) {
    if (!c.head_norms) return;
    q_norm_.emplace(s / "q_norm", c.head_size(), c.rms_norm_eps);
    k_norm_.emplace(s / "k_norm", c.head_size(), c.rms_norm_eps);
  }

  Value forward(Value x, const Positions& positions, Value frequencies) const {
    Value q = split_heads(q_proj_(x), config_.num_attention_heads),
          k = split_heads(k_proj_(x), config_.num_key_value_heads);
    const Value v = split_heads(v_proj_(x), config_.num_key_value_heads);
    if (q_norm_) q = (*q_norm_)(q), k = (*k_norm_)(k);
    const nn::RotaryEmbedding rotary{config_.rope_theta};
    const Value heads =
        cache_.attend(rotary(q, positions.ids, frequencies), rotary(k, positions.ids, frequencies), v,
                      positions, {.scale = scale(), .window = window_});
    return o_proj_(reshape(heads, {x.dim(0), x.dim(1), config_.num_attention_heads * config_.head_size()}));
  }

 private:
  Value split_heads(Value x, int64_t heads) const {
    return reshape(x, {x.dim(0), x.dim(1), heads, config_.head_size()});
  }

  // Returns the scale of attention scores; 0 means the default. A RoPE scaling that also scales q and k (YaRN) is applied to the
  // scores instead.
  double scale() const {
    const double more = config_.rope_scaling.of_scores();
    return more == 1 ? 0 : more / std::sqrt(static_cast<double>(config_.head_size()));
  }

  QwenConfig config_;
  int64_t window_;
  nn::Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<nn::RMSNorm> q_norm_, k_norm_;
  KeyValueCache cache_;
};

class DecoderLayer : public nn::Module<DecoderLayer> {
 public:
  DecoderLayer(const Scope& s, const QwenConfig& c, int64_t window, const init::Init& init)
      : Module(s),
        input_layernorm_(s / "input_layernorm", c.hidden_size, c.rms_norm_eps),
        self_attn_(s / "self_attn", c, window, init),
        post_attention_layernorm_(s / "post_attention_layernorm", c.hidden_size, c.rms_norm_eps),
        mlp_(s / "mlp", c.hidden_size, c.intermediate_size, false, init) {}

  Value forward(Value x, const Positions& positions, Value frequencies) const {
    x = x + self_attn_(input_layernorm_(x), positions, frequencies);
    return x + mlp_(post_attention_layernorm_(x));
  }

 private:
  nn::RMSNorm input_layernorm_;
  SelfAttention self_attn_;
  nn::RMSNorm post_attention_layernorm_;
  nn::FeedForwardSwiGLU mlp_;
};

class Qwen {
 public:
  Qwen(const Scope& s, const QwenConfig& c, const init::Init& init)
      : embed_tokens_(s / "model" / "embed_tokens", c.vocab_size, c.hidden_size, {.init = init}),
        layers_(s / "model" / "layers", c.num_hidden_layers,
                [&, layer = int64_t{0}](const Scope& scope) mutable {
                  return DecoderLayer(scope, c, c.window_of(layer++), init);
                }),
        norm_(s / "model" / "norm", c.hidden_size, c.rms_norm_eps),
        lm_head_(s / "lm_head", c.hidden_size, c.vocab_size,
                 {.bias = false,
                  .weight = c.tie_word_embeddings ? embed_tokens_.weight : Parameter{},
                  .init = init}),
        frequencies_(s, c.rope_theta, c.head_size(), c.rope_scaling) {}

  Value hidden(Value tokens, const Positions& positions) const {
    Graph& graph = *tokens.graph;
    const Value frequencies = frequencies_.in(graph, [&] { return positions.length(graph); });
    Value x = embed_tokens_(tokens);
    for (const DecoderLayer& layer : layers_) x = layer(x, positions, frequencies);
    return norm_(x);
  }
  Value logits(Value hidden, bool wide) const { return lm_head_(hidden, wide); }
  bool depends_on_length() const { return frequencies_.depend_on_length(); }

 private:
  nn::Embedding embed_tokens_;
  nn::ModuleList<DecoderLayer> layers_;
  nn::RMSNorm norm_;
  nn::Linear lm_head_;
  nn::RopeFrequencies frequencies_;
};

void check_cache(const QwenConfig& c) {
  check_size("qwen", "batch", c.batch);
  if (c.cache_positions > 0) check_size("qwen", "cache_positions", c.cache_positions);
  if (c.cache_positions < 0)
    fail("qwen: cache_positions is {}, it must be positive, or 0 for max_position_embeddings",
         c.cache_positions);
}

void check_windows(const QwenConfig& c) {
  if (c.sliding_window < 0) fail("qwen: sliding_window is {}, it must not be negative", c.sliding_window);
  if (c.layer_types.empty()) return;
  if (std::ssize(c.layer_types) != c.num_hidden_layers)
    fail("qwen: layer_types has {} entries for {} layers", c.layer_types.size(), c.num_hidden_layers);
  for (const std::string& type : c.layer_types) {
    if (type != "full_attention" && type != "sliding_attention")
      fail("qwen: layer_types has '{}', expected full_attention or sliding_attention", type);
    if (type == "sliding_attention" && c.sliding_window == 0)
      fail(
          "qwen: layer_types has sliding_attention, but sliding_window is 0: set how many tokens such a "
          "layer sees");
  }
}

void check(const QwenConfig& c) {
  check_size("qwen", "vocab_size", c.vocab_size);
  check_size("qwen", "hidden_size", c.hidden_size);
  check_size("qwen", "intermediate_size", c.intermediate_size);
  check_size("qwen", "num_hidden_layers", c.num_hidden_layers, kMaxLayers);
  check_size("qwen", "num_attention_heads", c.num_attention_heads, kMaxHeads);
  check_size("qwen", "num_key_value_heads", c.num_key_value_heads, kMaxHeads);
  check_size("qwen", "max_position_embeddings", c.max_position_embeddings);
  check_cache(c);
  check_windows(c);
  if (c.head_dim < 0)
    fail("qwen: head_dim is {}, it must be positive, or 0 for hidden_size / num_attention_heads", c.head_dim);
  if (!(c.rope_theta > 0)) fail("qwen: rope_theta is {}, it must be positive", c.rope_theta);
  if (!(c.rms_norm_eps >= 0)) fail("qwen: rms_norm_eps is {}, it must not be negative", c.rms_norm_eps);
  if (!(c.initializer_range >= 0))
    fail("qwen: initializer_range is {}, it must not be negative", c.initializer_range);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail("qwen: num_attention_heads {} is not a multiple of num_key_value_heads {}", c.num_attention_heads,
         c.num_key_value_heads);
  if (c.head_dim == 0 && c.hidden_size % c.num_attention_heads != 0)
    fail("qwen: hidden_size {} is not a multiple of num_attention_heads {}: set head_dim", c.hidden_size,
         c.num_attention_heads);
  check_size("qwen", c.head_dim ? "head_dim" : "hidden_size / num_attention_heads", c.head_size(),
             kMaxHeads);
  if (c.head_size() % 2 != 0)
    fail("qwen: the head size {} is odd; rotary embedding rotates pairs", c.head_size());
}

}  // namespace

std::unique_ptr<Model> make_qwen(const QwenConfig& config, uint64_t seed) {
  check(config);
  auto model = std::make_unique<Model>();
  const Qwen net(Scope(*model, seed, config.dtype), config, weights_init(config.initializer_range));
  add_decoder_entries(*model,
                      {.hidden = [&](Value tokens, const Positions& p) { return net.hidden(tokens, p); },
                       .logits = [&](Value hidden, bool wide) { return net.logits(hidden, wide); },
                       .depends_on_length = net.depends_on_length()},
                      config.batch);
  return model;
}

}  // namespace genesis::models
