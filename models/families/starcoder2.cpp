// StarCoder 2: Lozhkov et al., "StarCoder 2 and The Stack v2" (2024). LayerNorm, biases everywhere, and an MLP with GELU.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Starcoder2Config : DecoderConfig {
  bool use_bias = true;  // all projections have biases

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("use_bias", self.use_bias);
  }
};

std::unique_ptr<Model> make_starcoder2(const std::string& family, const Starcoder2Config& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.qkv_biases = c.use_bias,
                       .output_bias = c.use_bias,
                       .window = c.window_of(layer),
                       .mlp = MlpKind::kGelu,
                       .mlp_biases = c.use_bias};
  };
  return make_decoder(family, c, design_of, seed, {.norm = NormKind::kLayer});
}

}  // namespace

Family starcoder2_family() {
  Starcoder2Config standard;
  standard.rms_norm_eps = 1e-5;
  standard.tie_word_embeddings = true;
  return {
      .name = "starcoder2",
      .summary = "StarCoder 2 language model: grouped-query attention, LayerNorm, biases, GELU, windows",
      .network = make_network(standard, make_starcoder2),
      .hugging_face =
          HuggingFaceForm{
              .model_type = "starcoder2",
              .class_name = "Starcoder2ForCausalLM",
              .config = decoder_config(
                  {.vocab_size = 49152,
                   .hidden_size = 3072,
                   .intermediate_size = 12288,
                   .num_hidden_layers = 30,
                   .num_attention_heads = 24,
                   .num_key_value_heads = 2,
                   .max_position_embeddings = 4096,
                   .tie_word_embeddings = true,
                   .norm_eps = 1e-5,
                   .norm_eps_name = "norm_epsilon",
                   .activations = names_of_gelu_tanh()},
                  {flag_entry("use_bias", true), window_entry(nullptr),
                   only_entry("mlp_type", {"default"}, false), only_entry("norm_type", {"layer_norm"}, false),
                   only_entry("scale_attn_weights", {true}, false),
                   ignored_entry({"activation_function", "layer_norm_epsilon", "attention_softmax_in_fp32",
                                  "scale_attention_softmax_in_fp32"})})},
      .gguf = decoder_gguf({.architecture = "starcoder2",
                            .pre_tokenizer = "starcoder",
                            .norm_eps = kLayerNormEps,
                            .layers = {{"ffn_gate", ""}, {"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}},
                            .flags = {{"use_bias", "blk.0.attn_q.bias"}}})};
}

}  // namespace genesis::models
