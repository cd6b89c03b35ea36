// StableLM: Bellagente et al., "Stable LM 2 1.6B technical report" (2024). LayerNorm, and a quarter of each head rotates. Attention
// and MLP may read the same norm.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct StableLmConfig : DecoderConfig {
  double partial_rotary_factor = 0.25;
  bool use_qkv_bias = false;
  bool use_parallel_residual = false;  // attention and MLP read the same norm

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("partial_rotary_factor", self.partial_rotary_factor);
    visit("use_qkv_bias", self.use_qkv_bias);
    visit("use_parallel_residual", self.use_parallel_residual);
  }
};

std::unique_ptr<Model> make_stablelm(const std::string& family, const StableLmConfig& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.norms = c.use_parallel_residual ? kParallel : kNormsBefore,
                       .qkv_biases = c.use_qkv_bias,
                       .window = c.window_of(layer)};
  };
  return make_decoder(
      family, c, design_of, seed,
      {.norm = NormKind::kLayer, .rotary_size = rotary_size_of(family, c, c.partial_rotary_factor)});
}

}  // namespace

Family stablelm_family() {
  StableLmConfig standard;
  standard.rms_norm_eps = 1e-5;
  return {
      .name = "stablelm",
      .summary = "StableLM language model: LayerNorm, a part of each head rotates, SwiGLU",
      .network = make_network(standard, make_stablelm),
      .hugging_face =
          HuggingFaceForm{.model_type = "stablelm",
                          .class_name = "StableLmForCausalLM",
                          .config = decoder_config(
                              {.vocab_size = 50304,
                               .hidden_size = 2560,
                               .intermediate_size = 6912,
                               .num_key_value_heads = 32,
                               .max_position_embeddings = 4096,
                               .norm_eps = 1e-5,
                               .norm_eps_name = "layer_norm_eps",
                               .partial_rotary_factor = 0.25},
                              {flag_entry("use_qkv_bias", false), flag_entry("use_parallel_residual", false),
                               only_entry("qk_layernorm", {false}, true), no_windows_entry()})},
      .gguf = decoder_gguf({.architecture = "stablelm",
                            .pre_tokenizer = "gpt-2",
                            .norm_eps = kLayerNormEps,
                            .rotates_parts = true,
                            .more = {ignored_entry({"use_parallel_residual"})},
                            .flags = {{"use_qkv_bias", "blk.0.attn_q.bias"},
                                      {"use_parallel_residual", "blk.0.ffn_norm.weight", false}}})};
}

}  // namespace genesis::models
