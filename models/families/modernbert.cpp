// ModernBERT: Warner et al., "Smarter, better, faster, longer: a modern bidirectional encoder" (2024). Norms before attention and
// MLP, rotations instead of a table of positions, GLUs, and windows to both sides in most layers. Parameters have the names of
// transformers. Entry points: models/encoder.h.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/families/encoder/family.h"
#include "models/families/encoder/heads.h"

namespace genesis::models {

enum class ClassifierPooling : uint8_t { kCls, kMean };

}  // namespace genesis::models

namespace genesis {

template <>
struct EnumNames<models::ClassifierPooling> {
  static constexpr std::string_view names[] = {"cls", "mean"};
};

}  // namespace genesis

namespace genesis::models {
namespace {

using nlohmann::json;

struct ModernBertConfig : EncoderConfig {
  std::vector<std::string> layer_types =
      {};                         // sliding_attention or full_attention, by layer; empty: all full
  int64_t local_attention = 128;  // a layer with a window sees half as many tokens on either side
  double global_rope_theta = 1.6e5;
  double local_rope_theta = 1e4;  // the base in layers with a window
  bool norm_bias = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool decoder_bias = true;                                        // the logits of masked tokens have one
  ClassifierPooling classifier_pooling = ClassifierPooling::kCls;  // a classifier of texts reads this
  bool classifier_bias = false;                                    // the layer before the classifier has one
  Activation classifier_activation = Activation::kGelu;

  static void fields(auto& self, auto&& visit) {
    EncoderConfig::fields(self, visit);
    visit("layer_types", self.layer_types);
    visit("local_attention", self.local_attention);
    visit("global_rope_theta", self.global_rope_theta);
    visit("local_rope_theta", self.local_rope_theta);
    visit("norm_bias", self.norm_bias);
    visit("attention_bias", self.attention_bias);
    visit("mlp_bias", self.mlp_bias);
    visit("decoder_bias", self.decoder_bias);
    visit("classifier_pooling", self.classifier_pooling);
    visit("classifier_bias", self.classifier_bias);
    visit("classifier_activation", self.classifier_activation);
  }
  bool slides(int64_t layer) const {
    return !layer_types.empty() && layer_types[static_cast<size_t>(layer)] == "sliding_attention";
  }
};

nn::LayerNorm make_norm(const Scope& s, const ModernBertConfig& c) {
  return nn::LayerNorm(s, c.hidden_size, c.layer_norm_eps, true, c.norm_bias);
}

// The layers share the lengths of the texts, and the keys that a query with a window sees.
struct Sight {
  Value lengths;  // i64[batch]
  Value window;   // bool[seq, seq]
};

class ModernBertLayer : public nn::Module<ModernBertLayer> {
 public:
  ModernBertLayer(const Scope& s, const ModernBertConfig& c, int64_t layer, const init::Init& init)
      : Module(s),
        config_(c),
        slides_(c.slides(layer)),
        qkv_(s / "attn" / "Wqkv", c.hidden_size, 3 * c.hidden_size, {.bias = c.attention_bias, .init = init}),
        attention_output_(s / "attn" / "Wo", c.hidden_size, c.hidden_size,
                          {.bias = c.attention_bias, .init = init}),
        mlp_norm_(make_norm(s / "mlp_norm", c)),
        up_(s / "mlp" / "Wi", c.hidden_size, 2 * c.intermediate_size, {.bias = c.mlp_bias, .init = init}),
        down_(s / "mlp" / "Wo", c.intermediate_size, c.hidden_size, {.bias = c.mlp_bias, .init = init}) {
    if (layer > 0) attention_norm_.emplace(make_norm(s / "attn_norm", c));  // the embeddings have a norm
  }

  Value forward(Value x, const Sight& sight) const {
    x = x + attended(attention_norm_ ? (*attention_norm_)(x) : x, sight);
    const std::vector<Value> parts = chunk(up_(mlp_norm_(x)), 2, -1);
    return x + down_(activated(parts[0], config_.hidden_act) * parts[1]);
  }

 private:
  Value attended(Value x, const Sight& sight) const {
    std::vector<Value> qkv = chunk(qkv_(x), 3, -1);
    for (Value& part : qkv)
      part = reshape(part, {x.dim(0), x.dim(1), config_.num_attention_heads, config_.head_size()});
    const double theta = slides_ ? config_.local_rope_theta : config_.global_rope_theta;
    const Value place = arange(*x.graph, x.dim(1));
    const Value heads = attention(rope(qkv[0], place, theta), rope(qkv[1], place, theta), qkv[2], {},
                                  slides_ ? sight.window : Value(), sight.lengths);
    return attention_output_(reshape(heads, x.shape()));
  }

  ModernBertConfig config_;
  bool slides_;
  std::optional<nn::LayerNorm> attention_norm_;
  nn::Linear qkv_, attention_output_;
  nn::LayerNorm mlp_norm_;
  nn::Linear up_, down_;
};

// The head of masked tokens or of a classifier: norm(activation(dense(x))), then a product.
class ModernBertHead {
 public:
  ModernBertHead(const Scope& root, const ModernBertConfig& c, Parameter embedding, const init::Init& init)
      : config_(c),
        dense_(root / "head" / "dense", c.hidden_size, c.hidden_size,
               {.bias = c.classifier_bias, .init = init}),
        norm_(make_norm(root / "head" / "norm", c)) {
    if (c.head != EncoderHead::kMaskedLm) {
      output_.emplace(root / "classifier", c.hidden_size, c.num_labels, nn::Linear::Options{.init = init});
      return;
    }
    output_.emplace(root / "decoder", c.hidden_size, c.vocab_size,
                    nn::Linear::Options{.bias = false, .weight = embedding});
    if (c.decoder_bias) bias_ = (root / "decoder").parameter("bias", {c.vocab_size}, init::zeros());
  }

  Value logits(Value hidden, const EncoderInput& input, bool wide) const {
    if (config_.head == EncoderHead::kSequence) hidden = pooled(hidden, input);
    const Value logits = (*output_)(norm_(activated(dense_(hidden), config_.classifier_activation)), wide);
    return bias_ ? logits + cast(bias_.in(*hidden.graph), logits.dtype()) : logits;
  }

 private:
  Value pooled(Value hidden, const EncoderInput& input) const {
    if (config_.classifier_pooling == ClassifierPooling::kCls) return first_tokens(hidden);
    const Value real = unsqueeze(cast(real_tokens(input), hidden.dtype()), 2);
    return sum(hidden * real, {1}) / unsqueeze(cast(input.lengths, hidden.dtype()), 1);
  }

  ModernBertConfig config_;
  nn::Linear dense_;
  nn::LayerNorm norm_;
  std::optional<nn::Linear> output_;
  Parameter bias_;
};

class ModernBert {
 public:
  ModernBert(const Scope& root, const Scope& base, const ModernBertConfig& c, const init::Init& init)
      : config_(c),
        tok_embeddings_(base / "embeddings" / "tok_embeddings", c.vocab_size, c.hidden_size, {.init = init}),
        norm_(make_norm(base / "embeddings" / "norm", c)),
        layers_(base / "layers", c.num_hidden_layers,
                [&, layer = int64_t{0}](const Scope& scope) mutable {
                  return ModernBertLayer(scope, c, layer++, init);
                }),
        final_norm_(make_norm(base / "final_norm", c)) {
    if (c.head != EncoderHead::kNone) head_.emplace(root, c, tok_embeddings_.weight, init);
  }

  Value hidden(const EncoderInput& input) const {
    const Sight sight{input.lengths, window(input.tokens)};
    Value x = norm_(tok_embeddings_(input.tokens));
    for (const ModernBertLayer& layer : layers_) x = layer(x, sight);
    return final_norm_(x);
  }
  Value logits(Value hidden, const EncoderInput& input, bool wide) const {
    return head_->logits(hidden, input, wide);
  }

 private:
  Value window(Value tokens) const {
    if (std::ranges::find(config_.layer_types, "sliding_attention") == config_.layer_types.end()) return {};
    const Value place = arange(*tokens.graph, tokens.dim(1));
    return abs(unsqueeze(place, 0) - unsqueeze(place, 1)) <= Scalar(config_.local_attention / 2);
  }

  ModernBertConfig config_;
  nn::Embedding tok_embeddings_;
  nn::LayerNorm norm_;
  nn::ModuleList<ModernBertLayer> layers_;
  nn::LayerNorm final_norm_;
  std::optional<ModernBertHead> head_;
};

void check(const std::string& family, const ModernBertConfig& c) {
  check_encoder(family, c);
  if (c.head_size() % 2 != 0)
    fail("{}: the head size {} is odd; rotary embedding rotates pairs", family, c.head_size());
  check_size(family, "local_attention", c.local_attention);
  for (const auto& [name, theta] :
       {std::pair("global_rope_theta", c.global_rope_theta), {"local_rope_theta", c.local_rope_theta}})
    if (!(theta > 0)) fail("{}: {} is {}, it must be positive", family, name, theta);
  if (c.classifier_activation == Activation::kNone)
    fail("{}: classifier_activation is none, expected relu, gelu, gelu_tanh or silu", family);
  if (!c.layer_types.empty() && std::ssize(c.layer_types) != c.num_hidden_layers)
    fail("{}: layer_types has {} entries for {} layers", family, c.layer_types.size(), c.num_hidden_layers);
  for (const std::string& type : c.layer_types)
    if (type != "full_attention" && type != "sliding_attention")
      fail("{}: layer_types has '{}', expected full_attention or sliding_attention", family, type);
}

std::unique_ptr<Model> make_modernbert(const std::string& family, const ModernBertConfig& c, uint64_t seed) {
  check(family, c);
  auto model = std::make_unique<Model>();
  const Scope root(*model, seed, c.dtype);
  const Scope base = c.head == EncoderHead::kNone ? root : root / "model";
  const init::Init init = c.initializer_range == 0 ? init::unset() : init::normal(0, c.initializer_range);
  const ModernBert net(root, base, c, init);
  Encoder encoder{.hidden = [&](const EncoderInput& input) { return net.hidden(input); },
                  .head = c.head,
                  .problem = c.problem_type,
                  .labels = c.num_labels};
  if (c.head != EncoderHead::kNone)
    encoder.logits = [&](Value hidden, const EncoderInput& input, bool wide) {
      return net.logits(hidden, input, wide);
    };
  add_encoder_entries(*model, encoder);
  return model;
}

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

// Older versions of transformers have the distance of layers without a window instead of a list.
void read_layer_types(SettingsReader& r) {
  const int64_t every = std::max<int64_t>(1, r.integer("global_attn_every_n_layers", 3)),
                layers = std::clamp<int64_t>(r.size("num_hidden_layers"), 0, kMaxLayers);
  std::vector<std::string> types;
  for (int64_t i = 0; i < layers; ++i) types.emplace_back(i % every ? kSliding : kFull);
  const json& listed = r.get("layer_types");
  r.set("layer_types", types);
  if (listed.is_null()) return;
  const auto is_type = [](const json& type) { return type == kFull || type == kSliding; };
  if (!listed.is_array() || !std::ranges::all_of(listed, is_type))
    return r.refuse("layer_types", "a list of full_attention and sliding_attention");
  r.set("layer_types", listed);
}

ConfigEntry layer_types_entry() {
  return {.settings = {"layer_types"},
          .read = read_layer_types,
          .write =
              [](const json& settings, json& config) {
                const int64_t layers = std::clamp<int64_t>(settings.at("num_hidden_layers"), 0, kMaxLayers);
                const json& types = settings.at("layer_types");
                config["layer_types"] =
                    types.empty() ? json(std::vector<std::string>(static_cast<size_t>(layers), kFull))
                                  : types;
              },
          .replaces = {"layer_types", "global_attn_every_n_layers"},
          .normalize =
              [](json& settings) {
                const int64_t layers = std::clamp<int64_t>(settings.at("num_hidden_layers"), 0, kMaxLayers);
                if (settings.at("layer_types").empty())
                  settings["layer_types"] = std::vector<std::string>(static_cast<size_t>(layers), kFull);
              }};
}

// Version 5 has an object of parameters for each type of layer, older versions have two numbers.
void read_theta(SettingsReader& r, const char* name, const char* type, double standard) {
  json theta = r.has(name) ? r.get(name) : json(standard);
  const json& parameters = r.get("rope_parameters");
  if (!parameters.is_null() && !parameters.is_object()) return r.refuse("rope_parameters", "an object");
  if (parameters.is_object() && parameters.contains(type) && parameters.at(type).is_object())
    for (const auto& [key, value] : parameters.at(type).items()) {
      if (key == "rope_theta")
        theta = value;
      else if (key != "rope_type" || value != "default")
        r.add_problem(fmt::format("rope_parameters.{}.{}: {}", type, key, r.shown(value)));
    }
  r.copy_number_of(theta, name, name);
}

ConfigEntry thetas_entry() {
  return {.settings = {"global_rope_theta", "local_rope_theta"},
          .read =
              [](SettingsReader& r) {
                read_theta(r, "global_rope_theta", kFull, 1.6e5);
                read_theta(r, "local_rope_theta", kSliding, 1e4);
              },
          .write =
              [](const json& settings, json& config) {
                const auto parameters = [&](const char* name) {
                  return json{{"rope_type", "default"}, {"rope_theta", settings.at(name)}};
                };
                config["rope_parameters"] = {{kFull, parameters("global_rope_theta")},
                                             {kSliding, parameters("local_rope_theta")}};
              },
          .replaces = {"global_rope_theta", "local_rope_theta", "rope_parameters"}};
}

ConfigEntry pooling_entry() {
  return {.settings = {"classifier_pooling"},
          .read =
              [](SettingsReader& r) {
                const json pooling = r.given("classifier_pooling", "cls");
                if (pooling != "cls" && pooling != "mean")
                  return r.refuse("classifier_pooling", "cls or mean");
                r.set("classifier_pooling", pooling);
              },
          .write = [](const json& settings,
                      json& config) { config["classifier_pooling"] = settings.at("classifier_pooling"); }};
}

ConfigEntries entries() {
  return encoder_config(
      "ModernBert",
      {.vocab_size = 50368,
       .intermediate_size = 1152,
       .num_hidden_layers = 22,
       .max_position_embeddings = 8192,
       .norm_eps = 1e-5,
       .activation_name = "hidden_activation",
       .norm_eps_name = "norm_eps"},
      {layer_types_entry(), thetas_entry(), size_entry("local_attention", 128),
       flag_entry("norm_bias", false), flag_entry("attention_bias", false), flag_entry("mlp_bias", false),
       flag_entry("decoder_bias", true), flag_entry("classifier_bias", false), pooling_entry(),
       activation_entry("classifier_activation", "classifier_activation"),
       // These change how logits of masked tokens are computed in training, or belong to initialization and to other kernels.
       ignored_entry({"sparse_prediction", "sparse_pred_ignore_index", "initializer_cutoff_factor",
                      "reference_compile", "deterministic_flash_attn", "repad_logits_with_grad",
                      "layer_norm_eps"})});
}

}  // namespace

Family modernbert_family() {
  ModernBertConfig standard;
  standard.layer_norm_eps = 1e-5;
  standard.max_position_embeddings = 8192;
  return {
      .name = "modernbert",
      .summary = "ModernBERT encoder: norms before attention and MLP, rotations, GLUs, windows",
      .network = make_network(standard, make_modernbert),
      .hugging_face = encoder_form("modernbert", "ModernBert", "model.", "embeddings.tok_embeddings.weight",
                                   entries(), {"head.dense.weight", "decoder", "decoder.bias"})};
}

}  // namespace genesis::models
