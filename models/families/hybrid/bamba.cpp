// Bamba (IBM, Princeton, CMU and UIUC, 2024): a Llama, most of whose layers have Mamba2 instead of attention.
#include <algorithm>
#include <utility>

#include "models/config_sizes.h"
#include "models/families/decoder/mamba_config.h"

namespace genesis::models {
namespace {

using nlohmann::json;

struct BambaConfig : DecoderConfig, MambaSettings {
  double partial_rotary_factor = 0.5;

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    MambaSettings::fields(self, visit);
    visit("partial_rotary_factor", self.partial_rotary_factor);
  }
};

std::unique_ptr<Model> make_bamba(const std::string& family, BambaConfig c, uint64_t seed) {
  const auto kinds =
      kinds_of_layers(family, mamba_cycle(), std::exchange(c.layer_types, {}), c.num_hidden_layers);
  const MambaDesign mamba = c.mamba(family);
  const auto design_of = [&](int64_t layer) {
    const bool attends = kinds[static_cast<size_t>(layer)] == kAttentionLayer;
    return LayerDesign{.norms = {.before_mlp = "pre_ff_layernorm"},
                       .mixer = attends ? MixerKind::kAttention : MixerKind::kMamba2,
                       .mlp_module = "feed_forward",
                       .mamba = mamba};
  };
  return make_decoder(
      family, c, design_of, seed,
      {.rotary_size = rotary_size_of(family, c, c.partial_rotary_factor), .last_norm = "final_layernorm"});
}

// The layers with attention by number.
ConfigEntry attention_layers_entry() {
  ConfigEntry entry = layer_kinds_entry("layer_types", "layers_block_type", mamba_cycle(), kMambaLayer);
  entry.read = [](SettingsReader& r) {
    const int64_t layers = std::min(r.size("num_hidden_layers"), kMaxLayers);
    const json& attending = r.get("attn_layer_indices");
    r.ignore({"layer_types", "layers_block_type"});
    json kinds = json::array();
    for (int64_t i = 0; i < layers; ++i) {
      const bool attends = attending.is_array() && std::ranges::find(attending, json(i)) != attending.end();
      kinds.push_back(attends ? kAttentionLayer : kMambaLayer);
    }
    read_layer_kinds(r, "attn_layer_indices", kinds, mamba_cycle());
  };
  entry.write = [](const json& settings, json& config) {
    const json kinds = all_layer_kinds(settings, mamba_cycle());
    config["attn_layer_indices"] = json::array();
    for (size_t i = 0; i < kinds.size(); ++i)
      if (kinds[i] == kAttentionLayer) config["attn_layer_indices"].push_back(i);
  };
  entry.replaces = {"attn_layer_indices"};
  return entry;
}

}  // namespace

Family bamba_family() {
  BambaConfig standard;
  standard.rms_norm_eps = 1e-5;
  return {.name = "bamba",
          .summary = "Bamba language model: a llama with Mamba2, some layers with attention instead",
          .network = make_network(standard, make_bamba),
          .hugging_face = HuggingFaceForm{
              .model_type = "bamba",
              .class_name = "BambaForCausalLM",
              .config = decoder_config(
                  {.vocab_size = 128000,
                   .intermediate_size = 14336,
                   .num_key_value_heads = 8,
                   .max_position_embeddings = 262144,
                   .norm_eps = 1e-5,
                   .partial_rotary_factor = 0.5},
                  joined(mamba_entries({}),
                         {attention_layers_entry(), only_entry("attention_bias", {false}, true),
                          only_entry("mlp_bias", {false}, true), ignored_entry({"z_loss_coefficient"})}))}};
}

}  // namespace genesis::models
