// GLM-4-0414 (Z.ai, 2025): norms before and after attention and MLP, and a rotation of pairs of neighbors in half of each head.
// Checkpoints hold gate_proj and up_proj as one matrix.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Glm4Config : DecoderConfig {
  double partial_rotary_factor = 0.5;
  bool attention_bias = true;  // q, k and v have biases

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("partial_rotary_factor", self.partial_rotary_factor);
    visit("attention_bias", self.attention_bias);
  }
};

constexpr NormPlaces kGlm4Norms = {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                                   "post_mlp_layernorm"};

std::unique_ptr<Model> make_glm4(const std::string& family, const Glm4Config& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.norms = kGlm4Norms,
                       .qkv_biases = c.attention_bias,
                       .pairs = RopeKind::kInterleaved,
                       .window = c.window_of(layer)};
  };
  return make_decoder(family, c, design_of, seed,
                      {.rotary_size = rotary_size_of(family, c, c.partial_rotary_factor)});
}

}  // namespace

Family glm4_family() {
  Glm4Config standard;
  standard.rms_norm_eps = 1.5625e-7;
  return {.name = "glm4",
          .summary = "GLM-4 language model: norms around the layers, half of each head rotates, q/k/v biases",
          .network = make_network(standard, make_glm4),
          .hugging_face = HuggingFaceForm{.model_type = "glm4",
                                          .class_name = "Glm4ForCausalLM",
                                          .config = decoder_config(
                                              {.vocab_size = 151552,
                                               .intermediate_size = 13696,
                                               .num_hidden_layers = 40,
                                               .num_key_value_heads = 2,
                                               .head_dim = 128,
                                               .max_position_embeddings = 131072,
                                               .norm_eps = 1.5625e-7,
                                               .partial_rotary_factor = 0.5},
                                              {flag_entry("attention_bias", true), no_windows_entry()}),
                                          .fused = {kFusedGateUp}},
          .gguf = decoder_gguf({.architecture = "glm4",
                                .pre_tokenizer = "glm4",
                                .rotates_parts = true,
                                .layers = {{"post_attention_norm", "post_self_attn_layernorm"},
                                           {"post_ffw_norm", "post_mlp_layernorm"},
                                           {"ffn_gate", ""},
                                           {"ffn_up", "mlp.gate_up_proj"}},
                                .flags = {{"attention_bias", "blk.0.attn_q.bias"}},
                                .fused = {kFusedGateUp}})};
}

}  // namespace genesis::models
