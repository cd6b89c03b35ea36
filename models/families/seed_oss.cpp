// Seed-OSS (ByteDance, 2025): a Llama with biases of q, k and v, and others by setting.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct SeedOssConfig : DecoderConfig {
  bool attention_bias = true;  // q, k and v have biases
  bool attention_out_bias = false;
  bool mlp_bias = false;

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("attention_bias", self.attention_bias);
    visit("attention_out_bias", self.attention_out_bias);
    visit("mlp_bias", self.mlp_bias);
  }
};

std::unique_ptr<Model> make_seed_oss(const std::string& family, const SeedOssConfig& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.qkv_biases = c.attention_bias,
                       .output_bias = c.attention_out_bias,
                       .window = c.window_of(layer),
                       .mlp_biases = c.mlp_bias};
  };
  return make_decoder(family, c, design_of, seed);
}

}  // namespace

Family seed_oss_family() {
  SeedOssConfig standard;
  standard.tie_word_embeddings = true;
  return {
      .name = "seed_oss",
      .summary = "Seed-OSS language model: as llama, with q/k/v biases; others by setting",
      .network = make_network(standard, make_seed_oss),
      .hugging_face =
          HuggingFaceForm{.model_type = "seed_oss",
                          .class_name = "SeedOssForCausalLM",
                          .config = decoder_config(
                              {.vocab_size = 155136,
                               .intermediate_size = 27648,
                               .num_hidden_layers = 64,
                               .num_attention_heads = 80,
                               .num_key_value_heads = 8,
                               .head_dim = 128,
                               .max_position_embeddings = 524288},
                              {flag_entry("attention_bias", true), flag_entry("attention_out_bias", false),
                               flag_entry("mlp_bias", false), no_windows_entry()})},
      .gguf = decoder_gguf({.architecture = "seed_oss",
                            .pre_tokenizer = "seed-coder",
                            .layers = {{"ffn_norm", ""}, {"post_attention_norm", "post_attention_layernorm"}},
                            .flags = {{"attention_bias", "blk.0.attn_q.bias"},
                                      {"attention_out_bias", "blk.0.attn_output.bias"},
                                      {"mlp_bias", "blk.0.ffn_up.bias"}}})};
}

}  // namespace genesis::models
