#include "models/families/decoder/decoder.h"

#include <cmath>
#include <optional>

#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/families/decoder/attention.h"
#include "models/families/decoder/gated_delta_net.h"
#include "models/families/decoder/latent_attention.h"
#include "models/families/decoder/layer_embeddings.h"
#include "models/families/decoder/mamba_mixer.h"
#include "models/families/decoder/mixture.h"
#include "models/families/decoder/mlp.h"
#include "models/families/decoder/norm.h"
#include "models/families/decoder/short_convolution.h"

namespace genesis::models {
namespace {

// The switches of these files have a case for each value, so that the compiler names those that a new value lacks.

Value scaled(Value x, double factor) { return factor == 1 ? x : x * factor; }

using MixerLayer = std::function<Value(Value x, const Positions& positions, Value frequencies)>;

// The sum of attention and Mamba2, which read the same.
MixerLayer attention_beside_mamba(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                                  const NetworkDesign& network, const init::Init& init,
                                  const KeysOfLayers& keys) {
  return [attention = SelfAttention(s / "self_attn", c, design, network, init, keys),
          mamba = MambaMixer(s / "mamba", c, design.mamba, init), in = design.attention_in_scale,
          out = design.attention_out_scale](Value x, const Positions& positions, Value frequencies) {
    const Value attended = scaled(attention(scaled(x, in), positions, frequencies), out);
    return mamba(x, positions, frequencies) + attended;
  };
}

// Returns an empty function for a layer without a mixer.
MixerLayer make_mixer(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                      const NetworkDesign& network, const init::Init& init, const KeysOfLayers& keys) {
  const auto scope = [&](const char* name) { return s / (design.mixer_module ? design.mixer_module : name); };
  switch (design.mixer) {
    case MixerKind::kNone:
      return {};
    case MixerKind::kLatentAttention:
      return LatentAttention(scope("self_attn"), c, design, init);
    case MixerKind::kShortConvolution:
      return ShortConvolution(scope("conv"), c, design.convolution, init);
    case MixerKind::kGatedDelta:
      return GatedDeltaNet(scope("linear_attn"), c, design.delta, init);
    case MixerKind::kMamba2:
      return MambaMixer(scope("mamba"), c, design.mamba, init);
    case MixerKind::kAttentionBesideMamba2:
      return attention_beside_mamba(s, c, design, network, init, keys);
    case MixerKind::kAttention:
      break;
  }
  return SelfAttention(scope("self_attn"), c, design, network, init, keys);
}

Mixture make_mixture(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                     const init::Init& init, const RoutingLog& log) {
  const Scope module = design.experts.module ? s / design.experts.module : s;
  return {module, c.hidden_size, design.experts, init, log};
}

// Returns nothing for a layer without an MLP, and without experts in its place.
std::optional<nn::Layer> make_feed_forward(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                                           const init::Init& init, const RoutingLog& log) {
  if (design.experts.count > 0 && !design.experts_beside_mlp) return make_mixture(s, c, design, init, log);
  if (design.mlp == MlpKind::kNone) return {};
  return make_mlp(s / design.mlp_module, c.hidden_size, c.intermediate_size, design, init);
}

// Experts beside the MLP of a layer: the sum of both results, each behind a norm of its own.
class ExpertsBeside {
 public:
  ExpertsBeside(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                const NetworkDesign& network, const init::Init& init, const RoutingLog& log)
      : experts_(make_mixture(s, c, design, init, log)),
        after_mlp_(norm(s, c, design, network, "_1")),
        after_experts_(norm(s, c, design, network, "_2")) {}

  // `thought` is the result of the MLP, x what the layer's norm before it reads.
  Value operator()(Value thought, Value x) const { return after_mlp_(thought) + after_experts_(experts_(x)); }

 private:
  static nn::Layer norm(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
                        const NetworkDesign& network, const char* end) {
    return make_norm(s / (std::string(design.norms.after_mlp) + end), c.hidden_size, network.norm,
                     c.rms_norm_eps);
  }

  Mixture experts_;
  nn::Layer after_mlp_, after_experts_;
};

// Returns the settings with the sizes that are a layer's own.
DecoderConfig config_of_layer(DecoderConfig c, const LayerDesign& design) {
  if (design.head_size > 0) c.head_dim = design.head_size;
  if (design.key_value_heads > 0) c.num_key_value_heads = design.key_value_heads;
  if (design.intermediate_size > 0) c.intermediate_size = design.intermediate_size;
  return c;
}

// The logs in which the layers of one run tell each other.
struct LayerLogs {
  RoutingLog routing = std::make_shared<std::vector<Routing>>();
  KeysOfLayers keys = std::make_shared<std::vector<KeyValueCache::Seen>>();

  void clear() const {
    routing->clear();
    keys->clear();
  }
};

class DecoderLayer : public nn::Module<DecoderLayer> {
 public:
  DecoderLayer(const Scope& s, const DecoderConfig& c, const LayerDesign& design,
               const NetworkDesign& network, const init::Init& init, const LayerLogs& logs)
      : Module(s),
        is_parallel_(design.norms.parallel),
        residual_scale_(design.residual_scale),
        before_mixer_(norm(c, network, design.norms.before_mixer, s)),
        mixer_(make_mixer(s, c, design, network, init, logs.keys)),
        after_mixer_(norm(c, network, design.norms.after_mixer, s)),
        before_mlp_(norm(c, network, design.norms.before_mlp, s)),
        mlp_(make_feed_forward(s, c, design, init, logs.routing)),
        after_mlp_(norm(c, network, design.norms.after_mlp, s)) {
    if (design.experts_beside_mlp && design.experts.count > 0)
      experts_.emplace(s, c, design, network, init, logs.routing);
    if (network.layer_embedding_size > 0) layer_input_.emplace(s, c, network, init);
    if (network.layer_scalars) scalar_ = s.buffer("layer_scalar", {1}, init::ones());
  }

  // `own` is the vector that each token has for this layer, or empty.
  Value forward(Value x, const Positions& positions, Value frequencies, Value own) const {
    x = thought_about(x, positions, frequencies);
    if (layer_input_) x = x + (*layer_input_)(x, own);
    return scalar_ ? x * scalar_.in(*x.graph) : x;
  }

 private:
  using Norm = std::optional<nn::Layer>;

  Value thought_about(Value x, const Positions& positions, Value frequencies) const {
    const Value seen = normed(before_mixer_, x);
    if (mixer_) x = x + scaled(normed(after_mixer_, mixer_(seen, positions, frequencies)), residual_scale_);
    if (!mlp_) return x;
    Value thought = (*mlp_)(is_parallel_ ? seen : normed(before_mlp_, x));
    if (experts_) thought = (*experts_)(thought, x);
    return x + scaled(normed(after_mlp_, thought), residual_scale_);
  }

  static Norm norm(const DecoderConfig& c, const NetworkDesign& network, const char* name, const Scope& s) {
    if (!name) return {};
    return make_norm(s / name, c.hidden_size, network.norm, c.rms_norm_eps);
  }
  static Value normed(const Norm& norm, Value x) { return norm ? (*norm)(x) : x; }

  bool is_parallel_;
  double residual_scale_;
  Norm before_mixer_;
  MixerLayer mixer_;
  Norm after_mixer_, before_mlp_;
  std::optional<nn::Layer> mlp_;
  Norm after_mlp_;
  std::optional<ExpertsBeside> experts_;
  std::optional<LayerInput> layer_input_;
  Parameter scalar_;
};

class DecoderNetwork {
 public:
  DecoderNetwork(const Scope& s, const DecoderConfig& c, const DesignOfLayer& design_of,
                 const NetworkDesign& network, const init::Init& init)
      : network_(network),
        embed_tokens_(s / network.module / network.embedding, c.vocab_size, c.hidden_size, {.init = init}),
        layers_(s / network.module / "layers", c.num_hidden_layers,
                [&, layer = int64_t{0}](const Scope& scope) mutable {
                  const LayerDesign design = design_of(layer++);
                  return DecoderLayer(scope, config_of_layer(c, design), design, network, init, logs_);
                }),
        norm_(make_norm(s / network.module / network.last_norm, c.hidden_size, network.norm, c.rms_norm_eps)),
        lm_head_(s / "lm_head", c.hidden_size, c.vocab_size,
                 {.bias = false,
                  .weight = c.tie_word_embeddings ? embed_tokens_.weight : Parameter{},
                  .init = init}),
        frequencies_(s, c.rope_theta, network.rotary_size ? network.rotary_size : c.head_size(),
                     c.rope_scaling) {
    if (network.layer_embedding_size > 0) layer_embeddings_.emplace(s / network.module, c, network, init);
  }

  Value hidden(Value tokens, const Positions& positions) const {
    Graph& graph = *tokens.graph;
    logs_.clear();
    const Value frequencies = frequencies_.in(graph, [&] { return positions.length(graph); });
    Value x = scaled(embed_tokens_(tokens), network_.embedding_scale);
    const Value all = layer_embeddings_ ? (*layer_embeddings_)(x, tokens) : Value();
    int64_t number = 0;
    for (const DecoderLayer& layer : layers_)
      x = layer(x, positions, frequencies, all ? layer_embeddings_->of_layer(all, number++) : Value());
    return norm_(x);
  }
  Value logits(Value hidden, bool wide) const {
    return limited(scaled(lm_head_(hidden, wide), network_.logits_scale), network_.logits_limit);
  }
  // Returns the losses of the routers of the layers that hidden() ran last; empty if there are none.
  Value extra_loss() const { return router_loss(*logs_.routing); }
  bool depends_on_length() const { return frequencies_.depend_on_length(); }

 private:
  NetworkDesign network_;
  LayerLogs logs_;
  nn::Embedding embed_tokens_;
  nn::ModuleList<DecoderLayer> layers_;
  nn::Layer norm_;
  nn::Linear lm_head_;
  nn::RopeFrequencies frequencies_;
  std::optional<LayerEmbeddings> layer_embeddings_;
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

int64_t rotary_size_of(const std::string& family, const DecoderConfig& c, double partial_rotary_factor) {
  if (!(partial_rotary_factor > 0 && partial_rotary_factor <= 1))
    fail("{}: partial_rotary_factor is {}, it must be above 0, and 1 at most", family, partial_rotary_factor);
  check(family, c);
  const auto size = static_cast<int64_t>(static_cast<double>(c.head_size()) * partial_rotary_factor);
  if (size == 0 || size % 2 != 0)
    fail("{}: {} of {} elements of a head rotate (partial_rotary_factor {}); rotary embedding rotates pairs",
         family, size, c.head_size(), partial_rotary_factor);
  return size;
}

std::unique_ptr<Model> make_decoder(const std::string& family, const DecoderConfig& config,
                                    const DesignOfLayer& design_of, uint64_t seed,
                                    const NetworkDesign& network) {
  check(family, config);
  auto model = std::make_unique<Model>();
  const DecoderNetwork net(Scope(*model, seed, config.dtype), config, design_of, network,
                           weights_init(config.initializer_range));
  add_decoder_entries(*model,
                      {.hidden = [&](Value tokens, const Positions& p) { return net.hidden(tokens, p); },
                       .logits = [&](Value hidden, bool wide) { return net.logits(hidden, wide); },
                       .depends_on_length = net.depends_on_length(),
                       .extra_loss = [&] { return net.extra_loss(); }},
                      config.batch);
  return model;
}

}  // namespace genesis::models
