// Falcon-H1 (TII, 2025): each layer has attention and Mamba2 side by side, and multipliers for nearly everything.
#include <algorithm>
#include <cmath>

#include "models/families/decoder/mamba_config.h"

namespace genesis::models {
namespace {

using nlohmann::json;

struct FalconH1Config : DecoderConfig, MambaSettings {
  bool mamba_rms_norm = false;  // the results of Mamba2 are normalized
  bool mamba_norm_before_gate = true;
  double embedding_multiplier = 1, lm_head_multiplier = 1, key_multiplier = 1;
  double attention_in_multiplier = 1, attention_out_multiplier = 1;
  double ssm_in_multiplier = 1, ssm_out_multiplier = 1;
  std::vector<double> ssm_multipliers = {1, 1, 1, 1, 1};  // factors of z, x, B, C and the steps
  std::vector<double> mlp_multipliers = {1, 1};           // factors behind gate_proj and down_proj

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    MambaSettings::fields(self, visit);
    visit("mamba_rms_norm", self.mamba_rms_norm);
    visit("mamba_norm_before_gate", self.mamba_norm_before_gate);
    visit("embedding_multiplier", self.embedding_multiplier);
    visit("lm_head_multiplier", self.lm_head_multiplier);
    visit("key_multiplier", self.key_multiplier);
    visit("attention_in_multiplier", self.attention_in_multiplier);
    visit("attention_out_multiplier", self.attention_out_multiplier);
    visit("ssm_in_multiplier", self.ssm_in_multiplier);
    visit("ssm_out_multiplier", self.ssm_out_multiplier);
    visit("ssm_multipliers", self.ssm_multipliers);
    visit("mlp_multipliers", self.mlp_multipliers);
  }

  MambaDesign scaled_mamba(const std::string& family) const {
    check_factors(family, "ssm_multipliers", ssm_multipliers, 5);
    MambaDesign design = mamba(family);
    design.norm = !mamba_rms_norm          ? MambaNorm::kNone
                  : mamba_norm_before_gate ? MambaNorm::kGatedNorm
                                           : MambaNorm::kOfGated;
    design.in_scale = ssm_in_multiplier;
    design.out_scale = ssm_out_multiplier;
    std::ranges::copy(ssm_multipliers, design.part_scales.begin());
    return design;
  }
};

std::unique_ptr<Model> make_falcon_h1(const std::string& family, const FalconH1Config& c, uint64_t seed) {
  check_factors(family, "mlp_multipliers", c.mlp_multipliers, 2);
  if (!(c.key_multiplier > 0))
    fail("{}: key_multiplier is {}, it must be positive", family, c.key_multiplier);
  // The factor of keys is one of scores.
  const LayerDesign design{.norms = {.before_mlp = "pre_ff_layernorm"},
                           .mixer = MixerKind::kAttentionBesideMamba2,
                           .score_scale = c.key_multiplier / std::sqrt(static_cast<double>(c.head_size())),
                           .mlp_gate_scale = c.mlp_multipliers[0],
                           .mlp_out_scale = c.mlp_multipliers[1],
                           .mlp_module = "feed_forward",
                           .mamba = c.scaled_mamba(family),
                           .attention_in_scale = c.attention_in_multiplier,
                           .attention_out_scale = c.attention_out_multiplier};
  return make_decoder(family, c, [&](int64_t) { return design; }, seed,
                      {.embedding_scale = c.embedding_multiplier,
                       .logits_scale = c.lm_head_multiplier,
                       .last_norm = "final_layernorm"});
}

ConfigEntries own_entries() {
  ConfigEntries entries = mamba_entries({});
  for (const char* name :
       {"embedding_multiplier", "lm_head_multiplier", "key_multiplier", "attention_in_multiplier",
        "attention_out_multiplier", "ssm_in_multiplier", "ssm_out_multiplier"})
    entries.push_back(number_entry(name, 1.0));
  return joined(entries, {factors_entry("ssm_multipliers", 5),
                          factors_entry("mlp_multipliers", 2),
                          flag_entry("mamba_rms_norm", false),
                          flag_entry("mamba_norm_before_gate", true),
                          only_entry("attention_bias", {false}, true),
                          only_entry("mlp_bias", {false}, true),
                          only_entry("projectors_bias", {false}, true),
                          only_entry("mamba_proj_bias", {false}, true),
                          {.settings = {"mamba_d_head"},
                           .read =
                               [](SettingsReader& r) {
                                 const json& features = r.get("mamba_d_ssm");
                                 const int64_t heads = r.size("mamba_n_heads");
                                 if (!features.is_number_integer() || heads < 1) return;
                                 if (features.get<int64_t>() % heads != 0)
                                   return r.refuse("mamba_d_ssm", "a multiple of mamba_n_heads");
                                 r.set("mamba_d_head", features.get<int64_t>() / heads);
                               },
                           .write =
                               [](const json& settings, json& config) {
                                 config["mamba_d_ssm"] = settings.at("mamba_d_head").get<int64_t>() *
                                                         settings.at("mamba_n_heads").get<int64_t>();
                               }},
                          ignored_entry({"attn_layer_indices", "mamba_use_mlp"})});
}

// The converter multiplies weights with the multipliers.
GgufForm gguf_form() {
  std::map<std::string, std::string> layers = gguf_mamba("mamba");
  // Its files name this tensor without a kind.
  layers["ffn_norm"] = layers["ffn_norm.weight"] = "pre_ff_layernorm.weight";
  for (const char* part : {"gate", "up", "down"})
    layers[std::string("ffn_") + part] = std::string("feed_forward.") + part + "_proj";
  GgufForm form = decoder_gguf(
      {.architecture = "falcon-h1",
       .pre_tokenizer = "falcon-h1",
       .layers = layers,
       .more = joined(gguf_mamba_entries(),
                      {{.settings = {"mamba_norm_before_gate"},
                        .read = [](SettingsReader& r) { r.set("mamba_norm_before_gate", false); }}}),
       .flags = {{"mamba_rms_norm", "blk.0.ssm_norm.weight"}}});
  form.outside["output_norm"] = "model.final_layernorm";
  return form;
}

}  // namespace

Family falcon_h1_family() {
  FalconH1Config standard;
  standard.rms_norm_eps = 1e-5;
  return {.name = "falcon_h1",
          .summary = "Falcon-H1 language model: attention and Mamba2 side by side, with multipliers",
          .network = make_network(standard, make_falcon_h1),
          .hugging_face = HuggingFaceForm{.model_type = "falcon_h1",
                                          .class_name = "FalconH1ForCausalLM",
                                          .config = decoder_config({.vocab_size = 128000,
                                                                    .intermediate_size = 14336,
                                                                    .num_key_value_heads = 8,
                                                                    .max_position_embeddings = 8192,
                                                                    .norm_eps = 1e-5},
                                                                   own_entries())},
          .gguf = gguf_form()};
}

}  // namespace genesis::models
