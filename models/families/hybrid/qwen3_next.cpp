// Qwen3-Next (Alibaba, 2025): three of four layers have the gated delta rule instead of attention, whose heads have gates; all layers
// have experts.
#include <algorithm>
#include <utility>

#include "models/config_sizes.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

using nlohmann::json;

constexpr const char *kAttentionLayer = "full_attention", *kDeltaLayer = "linear_attention";
constexpr int64_t kInterval = 4, kMaxTaps = 1024;

struct Qwen3NextConfig : MixtureConfig, SparseLayers {
  int64_t shared_expert_intermediate_size = 256;
  bool norm_topk_prob = true;  // the factors of a token's experts add up to 1
  double partial_rotary_factor = 0.25;
  int64_t linear_conv_kernel_dim = 4;  // tokens that the convolution before the gated delta rule reads
  int64_t linear_key_head_dim = 32, linear_value_head_dim = 32;
  int64_t linear_num_key_heads = 2, linear_num_value_heads = 4;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    SparseLayers::fields(self, visit);
    visit("shared_expert_intermediate_size", self.shared_expert_intermediate_size);
    visit("norm_topk_prob", self.norm_topk_prob);
    visit("partial_rotary_factor", self.partial_rotary_factor);
    visit("linear_conv_kernel_dim", self.linear_conv_kernel_dim);
    visit("linear_key_head_dim", self.linear_key_head_dim);
    visit("linear_value_head_dim", self.linear_value_head_dim);
    visit("linear_num_key_heads", self.linear_num_key_heads);
    visit("linear_num_value_heads", self.linear_num_value_heads);
  }

  DeltaDesign delta(const std::string& family) const {
    check_size(family, "linear_key_head_dim", linear_key_head_dim, kMaxHeads);
    check_size(family, "linear_value_head_dim", linear_value_head_dim, kMaxHeads);
    check_size(family, "linear_num_key_heads", linear_num_key_heads, kMaxHeads);
    check_size(family, "linear_num_value_heads", linear_num_value_heads, kMaxHeads);
    if (linear_num_value_heads % linear_num_key_heads != 0)
      fail("{}: linear_num_value_heads {} is not a multiple of linear_num_key_heads {}", family,
           linear_num_value_heads, linear_num_key_heads);
    if (linear_conv_kernel_dim < 2 || linear_conv_kernel_dim > kMaxTaps)
      fail("{}: linear_conv_kernel_dim is {}, it must be from 2 to {}", family, linear_conv_kernel_dim,
           kMaxTaps);
    return {linear_num_key_heads, linear_num_value_heads, linear_key_head_dim, linear_value_head_dim,
            linear_conv_kernel_dim};
  }
};

json types_by_interval(int64_t layers, int64_t interval) {
  json types = json::array();
  for (int64_t layer = 0; layer < std::clamp<int64_t>(layers, 0, kMaxLayers); ++layer)
    types.push_back((layer + 1) % interval == 0 ? kAttentionLayer : kDeltaLayer);
  return types;
}

void check_layers(const std::string& family, const Qwen3NextConfig& c) {
  if (!c.layer_types.empty() && std::ssize(c.layer_types) != c.num_hidden_layers)
    fail("{}: layer_types has {} entries for {} layers", family, c.layer_types.size(), c.num_hidden_layers);
  for (const std::string& type : c.layer_types)
    if (type != kAttentionLayer && type != kDeltaLayer)
      fail("{}: layer_types has '{}', expected {} or {}", family, type, kAttentionLayer, kDeltaLayer);
}

std::unique_ptr<Model> make_qwen3_next(const std::string& family, Qwen3NextConfig c, uint64_t seed) {
  check_layers(family, c);
  const std::vector<std::string> types = std::exchange(c.layer_types, {});
  ExpertsDesign experts = c.experts(family);
  experts.normalized = c.norm_topk_prob;
  experts.shared_size = c.shared_expert_intermediate_size;
  experts.shared_gate = "shared_expert_gate";
  const DeltaDesign delta = c.delta(family);
  const auto design_of = [&](int64_t layer) {
    const bool attends =
        types.empty() ? (layer + 1) % kInterval == 0 : types[static_cast<size_t>(layer)] == kAttentionLayer;
    return LayerDesign{.mixer = attends ? MixerKind::kAttention : MixerKind::kGatedDelta,
                       .head_norms = HeadNorms::kPerHead,
                       .output_gates = true,
                       .delta = delta,
                       .experts = c.has_experts(layer) ? experts : ExpertsDesign{}};
  };
  return make_decoder(
      family, c, design_of, seed,
      {.norm = NormKind::kRmsFromOne, .rotary_size = rotary_size_of(family, c, c.partial_rotary_factor)});
}

// No list means the same as one in which every fourth layer has attention.
json shortest_list(const json& types) {
  return types.is_array() && types == types_by_interval(std::ssize(types), kInterval) ? json::array() : types;
}

// Layers are listed by kind, or each so many of them has attention.
ConfigEntry layers_entry() {
  return {
      .settings = {"layer_types"},
      .read =
          [](SettingsReader& r) {
            const json& types = r.get("layer_types");
            const int64_t interval = r.integer("full_attention_interval", kInterval);
            if (interval < 1) return r.refuse("full_attention_interval", "a positive integer");
            r.set("layer_types",
                  shortest_list(types.is_array() ? types
                                                 : types_by_interval(r.size("num_hidden_layers"), interval)));
          },
      .write =
          [](const json& settings, json& config) {
            const json& types = settings.at("layer_types");
            config["layer_types"] =
                types.empty() ? types_by_interval(settings.at("num_hidden_layers"), kInterval) : types;
          },
      .replaces = {"layer_types", "full_attention_interval"},
      .normalize =
          [](json& settings) { settings["layer_types"] = shortest_list(settings.at("layer_types")); }};
}

ConfigEntries own_entries() {
  return {only_entry("attention_bias", {false}, true),
          size_entry("moe_intermediate_size", 512),
          size_entry("shared_expert_intermediate_size", 512),
          flag_entry("norm_topk_prob", true),
          size_entry("linear_conv_kernel_dim", 4),
          size_entry("linear_key_head_dim", 128),
          size_entry("linear_value_head_dim", 128),
          size_entry("linear_num_key_heads", 16),
          size_entry("linear_num_value_heads", 32),
          layers_entry()};
}

}  // namespace

Family qwen3_next_family() {
  Qwen3NextConfig standard;
  standard.rope_theta = 1e7;
  standard.moe_intermediate_size = 256;
  return {
      .name = "qwen3_next",
      .summary =
          "Qwen3-Next language model: the gated delta rule, every fourth layer with gated attention, experts",
      .network = make_network(standard, make_qwen3_next),
      .hugging_face = HuggingFaceForm{
          .model_type = "qwen3_next",
          .class_name = "Qwen3NextForCausalLM",
          .config = joined(joined(decoder_config({.vocab_size = 151936,
                                                  .hidden_size = 2048,
                                                  .intermediate_size = 5632,
                                                  .num_hidden_layers = 48,
                                                  .num_attention_heads = 16,
                                                  .num_key_value_heads = 2,
                                                  .head_dim = 256,
                                                  .max_position_embeddings = 32768,
                                                  .partial_rotary_factor = 0.25},
                                                 own_entries()),
                                  experts_entries({"num_experts", "num_local_experts"}, 512, 10, 0.001)),
                           sparse_layers_entries()),
          .stacked = stacked_experts()}};
}

}  // namespace genesis::models
