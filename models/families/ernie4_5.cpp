// ERNIE 4.5, dense (Baidu, 2025): a Llama that rotates pairs of neighbors.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Ernie4_5Config : DecoderConfig {
  bool use_bias = false;  // all projections have biases

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("use_bias", self.use_bias);
  }
};

std::unique_ptr<Model> make_ernie4_5(const std::string& family, const Ernie4_5Config& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.qkv_biases = c.use_bias,
                       .output_bias = c.use_bias,
                       .pairs = RopeKind::kInterleaved,
                       .window = c.window_of(layer),
                       .mlp_biases = c.use_bias};
  };
  return make_decoder(family, c, design_of, seed);
}

}  // namespace

Family ernie4_5_family() {
  Ernie4_5Config standard;
  standard.rope_theta = 5e5;
  standard.rms_norm_eps = 1e-5;
  standard.tie_word_embeddings = true;
  return {.name = "ernie4_5",
          .summary = "ERNIE 4.5 language model: as llama, with a rotation of neighbors; biases by setting",
          .network = make_network(standard, make_ernie4_5),
          .hugging_face =
              HuggingFaceForm{.model_type = "ernie4_5",
                              .class_name = "Ernie4_5ForCausalLM",
                              .config = decoder_config({.vocab_size = 103424,
                                                        .hidden_size = 1024,
                                                        .intermediate_size = 3072,
                                                        .num_hidden_layers = 18,
                                                        .num_attention_heads = 16,
                                                        .num_key_value_heads = 2,
                                                        .head_dim = 128,
                                                        .max_position_embeddings = 131072,
                                                        .rope_theta = 5e5,
                                                        .tie_word_embeddings = true,
                                                        .norm_eps = 1e-5},
                                                       {flag_entry("use_bias", false), no_windows_entry(),
                                                        only_entry("compression_ratio", {1}, false)})},
          .gguf = decoder_gguf({.architecture = "ernie4_5",
                                .pre_tokenizer = "default",
                                .flags = {{"use_bias", "blk.0.attn_q.bias"}}})};
}

}  // namespace genesis::models
