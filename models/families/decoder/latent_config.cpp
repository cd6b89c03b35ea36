#include "models/families/decoder/latent_config.h"

#include <algorithm>
#include <cmath>

#include "models/config_sizes.h"

namespace genesis::models {
namespace {

// q_lora_rank is null where queries are one product.
ConfigEntry query_rank_entry() {
  return {.settings = {"q_lora_rank"},
          .read =
              [](SettingsReader& r) {
                if (r.given("q_lora_rank", 1536).is_null()) return r.set("q_lora_rank", 0);
                r.copy_size("q_lora_rank", "q_lora_rank", 1536);
              },
          .write =
              [](const nlohmann::json& settings, nlohmann::json& config) {
                const nlohmann::json& rank = settings.at("q_lora_rank");
                config["q_lora_rank"] = rank == 0 ? nlohmann::json() : rank;
              }};
}

// YaRN's parameters say how scores grow.
ConfigEntry score_growth_entry() {
  return {.settings = {"rope_mscale_all_dim"},
          .read =
              [](SettingsReader& r) {
                for (const char* name : {"rope_parameters", "rope_scaling"})
                  if (const nlohmann::json& rope = r.get(name);
                      rope.is_object() && rope.contains("mscale_all_dim"))
                    r.set("rope_mscale_all_dim", rope.at("mscale_all_dim"));
              },
          .write =
              [](const nlohmann::json& settings, nlohmann::json& config) {
                const nlohmann::json& growth = settings.at("rope_mscale_all_dim");
                for (const char* name : {"rope_parameters", "rope_scaling"})
                  if (growth != 0 && config.contains(name) && config[name].is_object())
                    config[name]["mscale_all_dim"] = growth;
              }};
}

}  // namespace

LayerDesign LatentConfig::layer(const std::string& family, const DecoderConfig& c, RopeKind pairs) const {
  if (q_lora_rank != 0) check_size(family, "q_lora_rank", q_lora_rank);
  check_size(family, "kv_lora_rank", kv_lora_rank);
  check_size(family, "qk_nope_head_dim", qk_nope_head_dim);
  check_size(family, "qk_rope_head_dim", qk_rope_head_dim);
  check_size(family, "v_head_dim", v_head_dim);
  const double factor = c.rope_scaling.factor,
               scales = c.rope_scaling.kind != nn::RopeScalingKind::kNone && factor > 1,
               growth = scales * 0.1 * rope_mscale_all_dim * std::log(std::max(1.0, factor)) + 1;
  return {
      .mixer = MixerKind::kLatentAttention,
      .output_bias = attention_bias,
      .pairs = pairs,
      .score_scale = growth * growth / std::sqrt(static_cast<double>(qk_nope_head_dim + qk_rope_head_dim)),
      .latent = {q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim}};
}

DecoderConfig LatentConfig::with_rotating_heads(const std::string& family, DecoderConfig c) const {
  if (c.head_dim != 0) check_size(family, "head_dim", c.head_dim, kMaxHeads);
  c.head_dim = qk_rope_head_dim;
  return c;
}

ConfigEntries latent_entries() {
  return {query_rank_entry(),
          size_entry("kv_lora_rank", 512),
          size_entry("qk_nope_head_dim", 128),
          size_entry("qk_rope_head_dim", 64),
          size_entry("v_head_dim", 128),
          flag_entry("attention_bias", false),
          score_growth_entry(),
          only_entry("moe_layer_freq", {1}, false),
          ignored_entry({"qk_head_dim", "num_nextn_predict_layers", "pretraining_tp", "ep_size",
                         "aux_loss_alpha", "seq_aux"}),
          no_windows_entry()};
}

}  // namespace genesis::models
