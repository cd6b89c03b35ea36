// GLM-4.5, GLM-4.5-Air, GLM-4.6 and GLM-4.7: "GLM-4.5: agentic, reasoning, and coding foundation models" (2025). The first layers have
// an MLP; in the others all tokens use shared experts beside those that a sigmoid and a bias choose, as in DeepSeek-V3.
#include "models/families/decoder/mixture_config.h"

namespace genesis::models {
namespace {

struct Glm4MoeConfig : MixtureConfig, SigmoidRouter {
  double partial_rotary_factor = 0.5;
  bool attention_bias = false;
  bool use_qk_norm = false;

  static void fields(auto& self, auto&& visit) {
    MixtureConfig::fields(self, visit);
    SigmoidRouter::fields(self, visit);
    visit("partial_rotary_factor", self.partial_rotary_factor);
    visit("attention_bias", self.attention_bias);
    visit("use_qk_norm", self.use_qk_norm);
  }
};

std::unique_ptr<Model> make_glm4_moe(const std::string& family, const Glm4MoeConfig& c, uint64_t seed) {
  const ExpertsDesign experts = c.routed(family, c.experts(family));
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.qkv_biases = c.attention_bias,
                       .head_norms = c.use_qk_norm ? HeadNorms::kPerHead : HeadNorms::kNone,
                       .window = c.window_of(layer),
                       .experts = layer < c.first_k_dense_replace ? ExpertsDesign{} : experts};
  };
  return make_decoder(family, c, design_of, seed,
                      {.rotary_size = rotary_size_of(family, c, c.partial_rotary_factor)});
}

GgufForm gguf_form() {
  std::map<std::string, std::string> layers = gguf_experts({.shared = "shared_experts"});
  layers.insert({{"post_attention_norm", "post_attention_layernorm"},
                 {"ffn_norm", ""},
                 {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"}});
  return decoder_gguf(
      {.architecture = "glm4moe",
       .pre_tokenizer = "glm4",
       .rotates_parts = true,
       .layers = layers,
       .more = joined(joined(gguf_experts_entries(true), gguf_sigmoid_entries()), gguf_shared_entries()),
       .flags = {{"attention_bias", "blk.0.attn_q.bias"}, {"use_qk_norm", "blk.0.attn_q_norm.weight"}},
       .instead = {gguf_layers_entry()}});
}

}  // namespace

Family glm4_moe_family() {
  Glm4MoeConfig standard;
  standard.rms_norm_eps = 1e-5;
  standard.moe_intermediate_size = 256;
  return {.name = "glm4_moe",
          .summary = "GLM-4.5 language model: a part of each head rotates; shared experts beside chosen ones",
          .network = make_network(standard, make_glm4_moe),
          .hugging_face =
              HuggingFaceForm{
                  .model_type = "glm4_moe",
                  .class_name = "Glm4MoeForCausalLM",
                  .config = joined(
                      joined(decoder_config(
                                 {.vocab_size = 151552,
                                  .intermediate_size = 10944,
                                  .num_hidden_layers = 46,
                                  .num_attention_heads = 96,
                                  .num_key_value_heads = 8,
                                  .max_position_embeddings = 131072,
                                  .norm_eps = 1e-5,
                                  .partial_rotary_factor = 0.5},
                                 {flag_entry("attention_bias", false), flag_entry("use_qk_norm", false),
                                  ignored_entry({"num_nextn_predict_layers"}), no_windows_entry()}),
                             experts_entries({"n_routed_experts", "num_local_experts", "num_experts"}, 128, 8,
                                             0.001)),
                      sigmoid_router_entries({.moe_intermediate_size = 1408, .first_k_dense_replace = 1})),
                  .stacked = stacked_experts()},
          .gguf = gguf_form()};
}

}  // namespace genesis::models
