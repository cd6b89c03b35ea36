// Command R (Cohere, 2024): attention and MLP read the same LayerNorm, pairs of neighbors rotate, and logits are scaled.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct CohereConfig : DecoderConfig {
  double logit_scale = 0.0625;
  bool use_qk_norm = false;  // q and k are normalized per head, with weights of each head

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("logit_scale", self.logit_scale);
    visit("use_qk_norm", self.use_qk_norm);
  }
};

std::unique_ptr<Model> make_cohere(const std::string& family, const CohereConfig& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.norms = kParallel,
                       .head_norms = c.use_qk_norm ? HeadNorms::kPerHeadOwn : HeadNorms::kNone,
                       .pairs = RopeKind::kInterleaved,
                       .window = c.window_of(layer)};
  };
  return make_decoder(family, c, design_of, seed,
                      {.norm = NormKind::kLayerWithoutBias, .logits_scale = c.logit_scale});
}

}  // namespace

Family cohere_family() {
  CohereConfig standard;
  standard.rms_norm_eps = 1e-5;
  standard.tie_word_embeddings = true;
  return {.name = "cohere",
          .summary = "Command R language model: parallel attention and MLP, LayerNorm without bias",
          .network = make_network(standard, make_cohere),
          .hugging_face =
              HuggingFaceForm{.model_type = "cohere",
                              .class_name = "CohereForCausalLM",
                              .config = decoder_config(
                                  {.vocab_size = 256000,
                                   .hidden_size = 8192,
                                   .intermediate_size = 22528,
                                   .num_hidden_layers = 40,
                                   .num_attention_heads = 64,
                                   .max_position_embeddings = 8192,
                                   .rope_theta = 5e5,
                                   .tie_word_embeddings = true,
                                   .norm_eps = 1e-5,
                                   .norm_eps_name = "layer_norm_eps"},
                                  {number_entry("logit_scale", 0.0625), flag_entry("use_qk_norm", false),
                                   only_entry("attention_bias", {false}, true), no_windows_entry()})},
          .gguf = decoder_gguf({.architecture = "command-r",
                                .pre_tokenizer = "command-r",
                                .norm_eps = kLayerNormEps,
                                .layers = {{"ffn_norm", ""}},
                                .more = {number_entry("logit_scale")},
                                .flags = {{"use_qk_norm", "blk.0.attn_q_norm.weight"}}})};
}

}  // namespace genesis::models
