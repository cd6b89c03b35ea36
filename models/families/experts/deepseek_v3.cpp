// DeepSeek-V3, R1 and Kimi K2: "DeepSeek-V3 technical report" (2024). Heads share one short vector per token (latent attention), the
// first layers have an MLP, and in the others a sigmoid, a bias and groups choose the experts beside the shared ones.
#include "models/families/decoder/latent_config.h"
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct DeepseekV3Config : MixtureConfig, SigmoidRouter, LatentConfig {
  bool rope_interleave = true;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    SigmoidRouter::fields(self, visit);
    LatentConfig::fields(self, visit);
    visit("rope_interleave", self.rope_interleave);
  }
};

std::unique_ptr<Model> make_deepseek_v3(const std::string& family, const DeepseekV3Config& c, uint64_t seed) {
  const ExpertsDesign experts = c.routed(family, c.experts(family));
  LayerDesign design = c.layer(family, c, c.rope_interleave ? RopeKind::kInterleaved : RopeKind::kHalf);
  const auto design_of = [&](int64_t layer) {
    design.experts = layer < c.first_k_dense_replace ? ExpertsDesign{} : experts;
    return design;
  };
  return make_decoder(family, c.with_rotating_heads(family, c), design_of, seed);
}

// Files of both generations have the same architecture; those whose factors add up to 1 are of this one.
GgufForm gguf_form() {
  DecoderGguf form = latent_gguf("expert_weights_norm");
  form.layers.merge(gguf_experts({.shared = "shared_experts"}));
  form.more = joined(
      form.more,
      joined(joined(gguf_experts_entries(true), gguf_sigmoid_entries()),
             joined(gguf_shared_entries(), {{.settings = {"rope_interleave"}, .read = [](SettingsReader& r) {
                                               r.set("rope_interleave", true);
                                             }}})));
  return decoder_gguf(form);
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
      .hugging_face =
          HuggingFaceForm{
              .model_type = "deepseek_v3",
              .class_name = "DeepseekV3ForCausalLM",
              .config = joined(
                  joined(decoder_config({.vocab_size = 129280,
                                         .hidden_size = 7168,
                                         .intermediate_size = 18432,
                                         .num_hidden_layers = 61,
                                         .num_attention_heads = 128,
                                         .num_key_value_heads = 128,
                                         .max_position_embeddings = 4096},
                                        joined(latent_entries(), {flag_entry("rope_interleave", true)})),
                         experts_entries({"n_routed_experts", "num_local_experts", "num_experts"}, 256, 8,
                                         0.001)),
                  sigmoid_router_entries({.moe_intermediate_size = 2048,
                                          .first_k_dense_replace = 3,
                                          .n_group = 8,
                                          .topk_group = 4,
                                          .routed_scaling_factor = 2.5})),
              .stacked = stacked_experts()},
      .gguf = gguf_form()};
}

}  // namespace genesis::models
