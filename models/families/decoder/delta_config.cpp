#include "models/families/decoder/delta_config.h"

#include <algorithm>

#include "models/config_sizes.h"

namespace genesis::models {
namespace {

using nlohmann::json;

constexpr const char *kAttentionLayer = "full_attention", *kDeltaLayer = "linear_attention";
constexpr int64_t kInterval = 4, kMaxTaps = 1024;

json types_by_interval(int64_t layers, int64_t interval) {
  json types = json::array();
  for (int64_t layer = 0; layer < std::clamp<int64_t>(layers, 0, kMaxLayers); ++layer)
    types.push_back((layer + 1) % interval == 0 ? kAttentionLayer : kDeltaLayer);
  return types;
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

}  // namespace

DeltaDesign DeltaConfig::delta(const std::string& family) const {
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

bool has_attention(const std::string& family, const DecoderConfig& c, int64_t layer) {
  if (c.layer_types.empty()) return (layer + 1) % kInterval == 0;
  if (std::ssize(c.layer_types) != c.num_hidden_layers)
    fail("{}: layer_types has {} entries for {} layers", family, c.layer_types.size(), c.num_hidden_layers);
  const std::string& type = c.layer_types[static_cast<size_t>(layer)];
  if (type != kAttentionLayer && type != kDeltaLayer)
    fail("{}: layer_types has '{}', expected {} or {}", family, type, kAttentionLayer, kDeltaLayer);
  return type == kAttentionLayer;
}

std::unique_ptr<Model> make_delta_decoder(const std::string& family, const DecoderConfig& config,
                                          const DeltaConfig& delta, bool split,
                                          const std::function<ExpertsDesign(int64_t layer)>& experts_of,
                                          uint64_t seed) {
  DeltaDesign rule = delta.delta(family);
  rule.is_split = split;
  const auto design_of = [&](int64_t layer) {
    const bool attends = has_attention(family, config, layer);
    return LayerDesign{.mixer = attends ? MixerKind::kAttention : MixerKind::kGatedDelta,
                       .head_norms = HeadNorms::kPerHead,
                       .output_gates = true,
                       .delta = rule,
                       .experts = experts_of(layer)};
  };
  DecoderConfig network = config;
  network.layer_types = {};  // make_decoder() would take them for those of windows
  return make_decoder(family, network, design_of, seed,
                      {.norm = NormKind::kRmsFromOne,
                       .rotary_size = rotary_size_of(family, network, delta.partial_rotary_factor)});
}

ConfigEntries delta_entries() {
  return {only_entry("attention_bias", {false}, true),
          size_entry("linear_conv_kernel_dim", 4),
          size_entry("linear_key_head_dim", 128),
          size_entry("linear_value_head_dim", 128),
          size_entry("linear_num_key_heads", 16),
          size_entry("linear_num_value_heads", 32),
          layers_entry()};
}

}  // namespace genesis::models
