// DeepSeek-V3 and R1: "DeepSeek-V3 technical report" (2024). Heads share one short vector per token (latent attention), the first layers
// have an MLP, and in the others a sigmoid, a bias and groups choose the experts beside the shared ones.
#include <cmath>

#include "models/config_sizes.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct DeepseekV3Config : MixtureConfig, SigmoidRouter {
  int64_t q_lora_rank = 96;  // 0: queries are one product
  int64_t kv_lora_rank = 64;
  int64_t qk_nope_head_dim = 32, qk_rope_head_dim = 16, v_head_dim = 32;
  bool rope_interleave = true;
  bool attention_bias = false;
  double rope_mscale_all_dim = 0;  // scores grow with the logarithm of the factor of YaRN; 0: they do not

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    SigmoidRouter::fields(self, visit);
    visit("q_lora_rank", self.q_lora_rank);
    visit("kv_lora_rank", self.kv_lora_rank);
    visit("qk_nope_head_dim", self.qk_nope_head_dim);
    visit("qk_rope_head_dim", self.qk_rope_head_dim);
    visit("v_head_dim", self.v_head_dim);
    visit("rope_interleave", self.rope_interleave);
    visit("attention_bias", self.attention_bias);
    visit("rope_mscale_all_dim", self.rope_mscale_all_dim);
  }
  LatentDesign latent(const std::string& family) const {
    if (q_lora_rank != 0) check_size(family, "q_lora_rank", q_lora_rank);
    check_size(family, "kv_lora_rank", kv_lora_rank);
    check_size(family, "qk_nope_head_dim", qk_nope_head_dim);
    check_size(family, "qk_rope_head_dim", qk_rope_head_dim);
    check_size(family, "v_head_dim", v_head_dim);
    return {q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim};
  }
  double score_scale() const {
    const double scales = rope_scaling.kind != nn::RopeScalingKind::kNone && rope_scaling.factor > 1,
                 growth =
                     scales * 0.1 * rope_mscale_all_dim * std::log(std::max(1.0, rope_scaling.factor)) + 1;
    return growth * growth / std::sqrt(static_cast<double>(qk_nope_head_dim + qk_rope_head_dim));
  }
};

std::unique_ptr<Model> make_deepseek_v3(const std::string& family, DeepseekV3Config c, uint64_t seed) {
  const LatentDesign latent = c.latent(family);
  if (c.head_dim != 0) check_size(family, "head_dim", c.head_dim, kMaxHeads);
  c.head_dim = c.qk_rope_head_dim;  // elements that rotate
  const ExpertsDesign experts = c.routed(family, c.experts(family));
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.mixer = MixerKind::kLatentAttention,
                       .output_bias = c.attention_bias,
                       .pairs = c.rope_interleave ? RopeKind::kInterleaved : RopeKind::kHalf,
                       .score_scale = c.score_scale(),
                       .latent = latent,
                       .experts = layer < c.first_k_dense_replace ? ExpertsDesign{} : experts};
  };
  return make_decoder(family, c, design_of, seed);
}

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
                if (growth != 0 && config.contains("rope_parameters"))
                  config["rope_parameters"]["mscale_all_dim"] = growth;
              }};
}

}  // namespace

Family deepseek_v3_family() {
  DeepseekV3Config standard;
  standard.moe_intermediate_size = 256;
  return {
      .name = "deepseek_v3",
      .summary =
          "DeepSeek-V3 language model: latent attention with a compressed cache, shared and chosen experts",
      .network = make_network(standard, make_deepseek_v3),
      .hugging_face = HuggingFaceForm{
          .model_type = "deepseek_v3",
          .class_name = "DeepseekV3ForCausalLM",
          .config = joined(
              joined(
                  decoder_config({.vocab_size = 129280,
                                  .hidden_size = 7168,
                                  .intermediate_size = 18432,
                                  .num_hidden_layers = 61,
                                  .num_attention_heads = 128,
                                  .num_key_value_heads = 128,
                                  .max_position_embeddings = 4096},
                                 {query_rank_entry(), size_entry("kv_lora_rank", 512),
                                  size_entry("qk_nope_head_dim", 128), size_entry("qk_rope_head_dim", 64),
                                  size_entry("v_head_dim", 128), flag_entry("rope_interleave", true),
                                  flag_entry("attention_bias", false), score_growth_entry(),
                                  only_entry("moe_layer_freq", {1}, false),
                                  ignored_entry({"qk_head_dim", "num_nextn_predict_layers", "pretraining_tp",
                                                 "ep_size", "aux_loss_alpha", "seq_aux"}),
                                  no_windows_entry()}),
                  experts_entries({"n_routed_experts", "num_local_experts", "num_experts"}, 256, 8, 0.001)),
              sigmoid_router_entries({.moe_intermediate_size = 2048,
                                      .first_k_dense_replace = 3,
                                      .n_group = 8,
                                      .topk_group = 4,
                                      .routed_scaling_factor = 2.5})),
          .stacked = stacked_experts()}};
}

}  // namespace genesis::models
