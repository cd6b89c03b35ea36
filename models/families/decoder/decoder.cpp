#include "models/families/decoder/decoder.h"

#include <cmath>

#include "builder/genesis.h"
#include "models/config_sizes.h"

namespace genesis::models {
namespace {

class SelfAttention : public nn::Module<SelfAttention> {
 public:
  SelfAttention(const Scope& s, const DecoderConfig& c, const LayerDesign& design, const init::Init& init)
      : Module(s),
        config_(c),
        design_(design),
        q_proj_(s / "q_proj", c.hidden_size, c.num_attention_heads * c.head_size(),
                {.bias = design.qkv_biases, .init = init}),
        k_proj_(s / "k_proj", c.hidden_size, c.num_key_value_heads * c.head_size(),
                {.bias = design.qkv_biases, .init = init}),
        v_proj_(s / "v_proj", c.hidden_size, c.num_key_value_heads * c.head_size(),
                {.bias = design.qkv_biases, .init = init}),
        o_proj_(s / "o_proj", c.num_attention_heads * c.head_size(), c.hidden_size,
                {.bias = false, .init = init}),
        cache_(s, c.cache_size(), c.num_key_value_heads, c.head_size()) {
    if (!design.head_norms) return;
    q_norm_.emplace(s / "q_norm", c.head_size(), c.rms_norm_eps);
    k_norm_.emplace(s / "k_norm", c.head_size(), c.rms_norm_eps);
  }

  Value forward(Value x, const Positions& positions, Value frequencies) const {
    Value q = split_heads(q_proj_(x), config_.num_attention_heads),
          k = split_heads(k_proj_(x), config_.num_key_value_heads);
    const Value v = split_heads(v_proj_(x), config_.num_key_value_heads);
    if (q_norm_) q = (*q_norm_)(q), k = (*k_norm_)(k);
    const Value heads = cache_.attend(rotated(q, positions, frequencies), rotated(k, positions, frequencies),
                                      v, positions, {.scale = scale(), .window = design_.window});
    return o_proj_(reshape(heads, {x.dim(0), x.dim(1), config_.num_attention_heads * config_.head_size()}));
  }

 private:
  Value split_heads(Value x, int64_t heads) const {
    return reshape(x, {x.dim(0), x.dim(1), heads, config_.head_size()});
  }

  Value rotated(Value x, const Positions& positions, Value frequencies) const {
    if (design_.rotation == RotationKind::kNone) return x;
    return nn::RotaryEmbedding{config_.rope_theta}(x, positions.ids, frequencies);
  }

  // Returns the scale of attention scores; 0 means the default. A RoPE scaling that also scales q and k (YaRN) is applied to the
  // scores instead.
  double scale() const {
    const double more = design_.rotation == RotationKind::kNone ? 1 : config_.rope_scaling.of_scores();
    return more == 1 ? 0 : more / std::sqrt(static_cast<double>(config_.head_size()));
  }

  DecoderConfig config_;
  LayerDesign design_;
  nn::Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<nn::RMSNorm> q_norm_, k_norm_;
  KeyValueCache cache_;
};

// The switches below have a case for each value, so that the compiler names those that a new value lacks.

using MixerLayer = std::function<Value(Value x, const Positions& positions, Value frequencies)>;

MixerLayer make_mixer(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                      const init::Init& init) {
  switch (design.mixer) {
    case MixerKind::kAttention:
      break;
  }
  return SelfAttention(s / "self_attn", c, design, init);
}

nn::Layer make_mlp(const Scope& s, const DecoderConfig& c, MlpKind mlp, const init::Init& init) {
  switch (mlp) {
    case MlpKind::kSwiGlu:
      break;
  }
  return nn::FeedForwardSwiGLU(s / "mlp", c.hidden_size, c.intermediate_size, false, init);
}

class DecoderLayer : public nn::Module<DecoderLayer> {
 public:
  DecoderLayer(const Scope& s, const DecoderConfig& c, const LayerDesign& design, const init::Init& init)
      : Module(s),
        norms_(design.norms),
        input_layernorm_(s / "input_layernorm", c.hidden_size, c.rms_norm_eps),
        mixer_(make_mixer(s, c, design, init)),
        post_attention_layernorm_(s / "post_attention_layernorm", c.hidden_size, c.rms_norm_eps),
        mlp_(make_mlp(s, c, design.mlp, init)) {}

  Value forward(Value x, const Positions& positions, Value frequencies) const {
    switch (norms_) {
      case NormPlaces::kBefore:
        break;
    }
    x = x + mixer_(input_layernorm_(x), positions, frequencies);
    return x + mlp_(post_attention_layernorm_(x));
  }

 private:
  NormPlaces norms_;
  nn::RMSNorm input_layernorm_;
  MixerLayer mixer_;
  nn::RMSNorm post_attention_layernorm_;
  nn::Layer mlp_;
};

class DecoderNetwork {
 public:
  DecoderNetwork(const Scope& s, const DecoderConfig& c, const DesignOfLayer& design_of,
                 const init::Init& init)
      : embed_tokens_(s / "model" / "embed_tokens", c.vocab_size, c.hidden_size, {.init = init}),
        layers_(s / "model" / "layers", c.num_hidden_layers,
                [&, layer = int64_t{0}](const Scope& scope) mutable {
                  return DecoderLayer(scope, c, design_of(layer++), init);
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

void check_cache(const std::string& family, const DecoderConfig& c) {
  check_size(family, "batch", c.batch);
  if (c.cache_positions > 0) check_size(family, "cache_positions", c.cache_positions);
  if (c.cache_positions < 0)
    fail("{}: cache_positions is {}, it must be positive, or 0 for max_position_embeddings", family,
         c.cache_positions);
}

void check_windows(const std::string& family, const DecoderConfig& c) {
  if (c.sliding_window < 0)
    fail("{}: sliding_window is {}, it must not be negative", family, c.sliding_window);
  if (c.layer_types.empty()) return;
  if (std::ssize(c.layer_types) != c.num_hidden_layers)
    fail("{}: layer_types has {} entries for {} layers", family, c.layer_types.size(), c.num_hidden_layers);
  for (const std::string& type : c.layer_types) {
    if (type != "full_attention" && type != "sliding_attention")
      fail("{}: layer_types has '{}', expected full_attention or sliding_attention", family, type);
    if (type == "sliding_attention" && c.sliding_window == 0)
      fail(
          "{}: layer_types has sliding_attention, but sliding_window is 0: set how many tokens such a "
          "layer sees",
          family);
  }
}

void check(const std::string& family, const DecoderConfig& c) {
  check_size(family, "vocab_size", c.vocab_size);
  check_size(family, "hidden_size", c.hidden_size);
  check_size(family, "intermediate_size", c.intermediate_size);
  check_size(family, "num_hidden_layers", c.num_hidden_layers, kMaxLayers);
  check_size(family, "num_attention_heads", c.num_attention_heads, kMaxHeads);
  check_size(family, "num_key_value_heads", c.num_key_value_heads, kMaxHeads);
  check_size(family, "max_position_embeddings", c.max_position_embeddings);
  check_cache(family, c);
  check_windows(family, c);
  if (c.head_dim < 0)
    fail("{}: head_dim is {}, it must be positive, or 0 for hidden_size / num_attention_heads", family,
         c.head_dim);
  if (!(c.rope_theta > 0)) fail("{}: rope_theta is {}, it must be positive", family, c.rope_theta);
  if (!(c.rms_norm_eps >= 0)) fail("{}: rms_norm_eps is {}, it must not be negative", family, c.rms_norm_eps);
  if (!(c.initializer_range >= 0))
    fail("{}: initializer_range is {}, it must not be negative", family, c.initializer_range);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail("{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", family,
         c.num_attention_heads, c.num_key_value_heads);
  if (c.head_dim == 0 && c.hidden_size % c.num_attention_heads != 0)
    fail("{}: hidden_size {} is not a multiple of num_attention_heads {}: set head_dim", family,
         c.hidden_size, c.num_attention_heads);
  check_size(family, c.head_dim ? "head_dim" : "hidden_size / num_attention_heads", c.head_size(), kMaxHeads);
  if (c.head_size() % 2 != 0)
    fail("{}: the head size {} is odd; rotary embedding rotates pairs", family, c.head_size());
}

}  // namespace

std::unique_ptr<Model> make_decoder(const std::string& family, const DecoderConfig& config,
                                    const DesignOfLayer& design_of, uint64_t seed) {
  check(family, config);
  auto model = std::make_unique<Model>();
  const DecoderNetwork net(Scope(*model, seed, config.dtype), config, design_of,
                           weights_init(config.initializer_range));
  add_decoder_entries(*model,
                      {.hidden = [&](Value tokens, const Positions& p) { return net.hidden(tokens, p); },
                       .logits = [&](Value hidden, bool wide) { return net.logits(hidden, wide); },
                       .depends_on_length = net.depends_on_length()},
                      config.batch);
  return model;
}

}  // namespace genesis::models
