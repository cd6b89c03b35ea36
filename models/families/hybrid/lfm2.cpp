// LFM2 (Liquid AI, 2025): most layers have a gated short convolution instead of attention.
#include <algorithm>
#include <utility>

#include "models/config_sizes.h"
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

using nlohmann::json;

constexpr const char *kAttentionLayer = "full_attention", *kConvolutionLayer = "conv";
constexpr int64_t kMaxTaps = 1024;

struct Lfm2Config : DecoderConfig {
  int64_t conv_L_cache = 3;  // tokens that a convolution reads
  bool conv_bias = false;

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("conv_L_cache", self.conv_L_cache);
    visit("conv_bias", self.conv_bias);
  }
};

void check_layers(const std::string& family, const Lfm2Config& c) {
  if (c.conv_L_cache < 2 || c.conv_L_cache > kMaxTaps)
    fail("{}: conv_L_cache is {}, it must be from 2 to {}", family, c.conv_L_cache, kMaxTaps);
  if (!c.layer_types.empty() && std::ssize(c.layer_types) != c.num_hidden_layers)
    fail("{}: layer_types has {} entries for {} layers", family, c.layer_types.size(), c.num_hidden_layers);
  for (const std::string& type : c.layer_types)
    if (type != kAttentionLayer && type != kConvolutionLayer)
      fail("{}: layer_types has '{}', expected {} or {}", family, type, kAttentionLayer, kConvolutionLayer);
}

std::unique_ptr<Model> make_lfm2(const std::string& family, Lfm2Config c, uint64_t seed) {
  check_layers(family, c);
  const std::vector<std::string> types = std::exchange(c.layer_types, {});
  const auto design_of = [&](int64_t layer) {
    const bool attends = types.empty() || types[static_cast<size_t>(layer)] == kAttentionLayer;
    return LayerDesign{.mixer = attends ? MixerKind::kAttention : MixerKind::kShortConvolution,
                       .head_norms = HeadNorms::kPerHead,
                       .convolution = {.taps = c.conv_L_cache, .biases = c.conv_bias}};
  };
  return make_decoder(family, c, design_of, seed);
}

json all_attending(const json& layers) {
  const int64_t count = std::clamp<int64_t>(layers, 0, kMaxLayers);
  return std::vector<std::string>(static_cast<size_t>(count), kAttentionLayer);
}

// No list means the same as one of layers that all have attention.
json shortest_list(const json& types) {
  const auto attends = [](const json& type) { return type == kAttentionLayer; };
  return types.is_array() && std::ranges::all_of(types, attends) ? json::array() : types;
}

void normalize_layers(json& settings) { settings["layer_types"] = shortest_list(settings.at("layer_types")); }

// Layers are listed by kind, or those with attention by number.
ConfigEntry layers_entry() {
  return {.settings = {"layer_types"},
          .read =
              [](SettingsReader& r) {
                const json &types = r.get("layer_types"), &attending = r.get("full_attn_idxs");
                if (types.is_array()) return r.set("layer_types", shortest_list(types));
                if (!attending.is_array()) return;
                json listed = json::array();
                const int64_t layers = std::min(r.size("num_hidden_layers"), kMaxLayers);
                for (int64_t layer = 0; layer < layers; ++layer)
                  listed.push_back(std::ranges::find(attending, json(layer)) != attending.end()
                                       ? kAttentionLayer
                                       : kConvolutionLayer);
                r.set("layer_types", shortest_list(listed));
              },
          .write =
              [](const json& settings, json& config) {
                const json& types = settings.at("layer_types");
                config["layer_types"] =
                    types.empty() ? all_attending(settings.at("num_hidden_layers")) : types;
              },
          .replaces = {"layer_types", "full_attn_idxs"},
          .normalize = normalize_layers};
}

// The number that a configuration gives is adjusted, unless it says that it is final: by a factor of 2/3, another factor, and up
// to a multiple.
void read_intermediate_size(SettingsReader& r) {
  const char* name = r.get("block_ff_dim").is_null() ? "intermediate_size" : "block_ff_dim";
  r.copy_size(name, "intermediate_size", 12288);
  if (r.given("block_auto_adjust_ff_dim", true) != true)
    return r.ignore({"block_ffn_dim_multiplier", "block_multiple_of"});
  const json& factor = r.given("block_ffn_dim_multiplier", 1.0);
  const int64_t multiple = r.integer("block_multiple_of", 256);
  if (!factor.is_number() || !(factor.get<double>() > 0) || factor.get<double>() > 1e6)
    return r.refuse("block_ffn_dim_multiplier", "a positive number");
  if (multiple < 1 || multiple > kMaxFeatures) return r.refuse("block_multiple_of", "a positive integer");
  const auto size =
      static_cast<int64_t>(static_cast<double>(2 * r.size("intermediate_size") / 3) * factor.get<double>());
  r.set("intermediate_size", (size + multiple - 1) / multiple * multiple);
}

ConfigEntry intermediate_size_entry() {
  return {.settings = {"intermediate_size"},
          .read = read_intermediate_size,
          .write =
              [](const json& settings, json& config) {
                config["intermediate_size"] = settings.at("intermediate_size");
                config["block_auto_adjust_ff_dim"] = false;
              },
          .replaces = {"block_ff_dim", "block_ffn_dim_multiplier", "block_multiple_of"}};
}

ConfigEntry old_tie_entry() {
  return {.settings = {},
          .read =
              [](SettingsReader& r) {
                if (const json& tied = r.get("tie_embedding"); tied.is_boolean())
                  r.set("tie_word_embeddings", tied);
              },
          .replaces = {"tie_embedding"}};
}

// The names of checkpoints, each with that of the zoo.
std::vector<FusedWeights> renamed_weights() {
  std::vector<FusedWeights> renamed;
  for (const auto& [stored, own] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model.embedding_norm", "model.norm"},
           {".self_attn.out_proj", ".self_attn.o_proj"},
           {".self_attn.q_layernorm", ".self_attn.q_norm"},
           {".self_attn.k_layernorm", ".self_attn.k_norm"},
           {".operator_norm", ".input_layernorm"},
           {".ffn_norm", ".post_attention_layernorm"},
           {".feed_forward.w1", ".mlp.gate_proj"},
           {".feed_forward.w2", ".mlp.down_proj"},
           {".feed_forward.w3", ".mlp.up_proj"}})
    renamed.push_back({std::string(stored) + ".weight", {std::string(own) + ".weight"}});
  return renamed;
}

// A layer without heads of keys has a convolution.
void read_gguf_layers(SettingsReader& r) {
  const json& heads = r.get("attention.head_count_kv");
  json types = json::array();
  for (int64_t layer = 0; layer < std::min(r.size("num_hidden_layers"), kMaxLayers); ++layer)
    types.push_back(gguf_number_of_layer(heads, layer) > 0 ? kAttentionLayer : kConvolutionLayer);
  r.set("layer_types", shortest_list(types));
}

GgufForm gguf_form() {
  GgufForm form = decoder_gguf(
      {.architecture = "lfm2",
       .pre_tokenizer = "lfm2",
       .layers = {{"shortconv.conv", "conv.conv"},
                  {"shortconv.in_proj", "conv.in_proj"},
                  {"shortconv.out_proj", "conv.out_proj"}},
       .more = {size_entry("shortconv.l_cache", {}, "conv_L_cache"),
                {.settings = {"layer_types"}, .read = read_gguf_layers},
                {.settings = {"conv_bias"}, .read = [](SettingsReader& r) { r.set("conv_bias", false); }}}});
  form.outside.erase("output_norm");
  form.outside.emplace("token_embd_norm", "model.norm");
  return form;
}

}  // namespace

Family lfm2_family() {
  Lfm2Config standard;
  standard.rope_theta = 1e6;
  standard.rms_norm_eps = 1e-5;
  standard.tie_word_embeddings = true;
  return {.name = "lfm2",
          .summary = "LFM2 language model: gated short convolutions, some layers with attention instead",
          .network = make_network(standard, make_lfm2),
          .hugging_face =
              HuggingFaceForm{.model_type = "lfm2",
                              .class_name = "Lfm2ForCausalLM",
                              .config = decoder_config(
                                  {.vocab_size = 65536,
                                   .hidden_size = 2560,
                                   .intermediate_size = 12288,
                                   .num_key_value_heads = 8,
                                   .max_position_embeddings = 128000,
                                   .rope_theta = 1e6,
                                   .tie_word_embeddings = true,
                                   .norm_eps = 1e-5,
                                   .norm_eps_name = "norm_eps"},
                                  {size_entry("conv_L_cache", 3), flag_entry("conv_bias", false),
                                   layers_entry(), intermediate_size_entry(), old_tie_entry(),
                                   only_entry("block_use_swiglu", {true}, false),
                                   only_entry("use_pos_enc", {true}, false),
                                   ignored_entry({"block_dim", "block_mlp_init_scale", "block_norm_eps",
                                                  "block_out_init_scale", "block_use_xavier_init", "conv_dim",
                                                  "conv_dim_out", "conv_use_xavier_init", "num_heads"})}),
                              .fused = renamed_weights()},
          .gguf = gguf_form()};
}

}  // namespace genesis::models
