// Gemma 2: Gemma Team, "Gemma 2: improving open language models at a practical size" (2024). Norms around the layers with weights
// 1 + w, GeGLU, scaled embeddings, and limits of scores and logits.
#include <cmath>

#include "models/config_sizes.h"
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Gemma2Config : DecoderConfig {
  int64_t query_pre_attn_scalar = 256;  // scores are divided by its square root
  double attn_logit_softcapping = 50;   // limit of scores; 0: none
  double final_logit_softcapping = 30;

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("query_pre_attn_scalar", self.query_pre_attn_scalar);
    visit("attn_logit_softcapping", self.attn_logit_softcapping);
    visit("final_logit_softcapping", self.final_logit_softcapping);
  }
};

std::unique_ptr<Model> make_gemma2(const std::string& family, const Gemma2Config& c, uint64_t seed) {
  check_size(family, "query_pre_attn_scalar", c.query_pre_attn_scalar);
  const auto design_of = [&](int64_t layer) {
    return LayerDesign{.norms = kNormsAround,
                       .score_scale = 1 / std::sqrt(static_cast<double>(c.query_pre_attn_scalar)),
                       .score_limit = c.attn_logit_softcapping,
                       .window = c.window_of(layer),
                       .mlp = MlpKind::kGeGlu};
  };
  return make_decoder(family, c, design_of, seed,
                      {.norm = NormKind::kRmsFromOne,
                       .embedding_scale = std::sqrt(static_cast<double>(c.hidden_size)),
                       .logits_limit = c.final_logit_softcapping});
}

}  // namespace

Family gemma2_family() {
  Gemma2Config standard;
  standard.tie_word_embeddings = true;
  return {.name = "gemma2",
          .summary = "Gemma 2 language model: norms around the layers, GeGLU, limited scores and logits",
          .network = make_network(standard, make_gemma2),
          .hugging_face =
              HuggingFaceForm{
                  .model_type = "gemma2",
                  .class_name = "Gemma2ForCausalLM",
                  .config = decoder_config(
                      {.vocab_size = 256000,
                       .hidden_size = 2304,
                       .intermediate_size = 9216,
                       .num_hidden_layers = 26,
                       .num_attention_heads = 8,
                       .num_key_value_heads = 4,
                       .head_dim = 256,
                       .max_position_embeddings = 8192,
                       .tie_word_embeddings = true,
                       .activation_name = "hidden_activation",
                       .activations = names_of_gelu_tanh()},
                      {size_entry("query_pre_attn_scalar", 256),
                       optional_number_entry("attn_logit_softcapping", 50.0),
                       optional_number_entry("final_logit_softcapping", 30.0),
                       layer_windows_entry(4096, slides_by_pattern(2)),
                       only_entry("attention_bias", {false}, true),
                       only_entry("use_bidirectional_attention", {false}, false),
                       ignored_entry({"hidden_act", "cache_implementation", "sliding_window_size"})})},
          .gguf = decoder_gguf({.architecture = "gemma2",
                                .pre_tokenizer = "default",
                                .windows = GgufWindows{.size = 4096, .pattern = 2},
                                .layers = {{"post_attention_norm", "post_attention_layernorm"},
                                           {"ffn_norm", "pre_feedforward_layernorm"},
                                           {"post_ffw_norm", "post_feedforward_layernorm"}},
                                .more = {gemma_score_entry(46), number_entry("attn_logit_softcapping", 50.0),
                                         number_entry("final_logit_softcapping", 30.0)},
                                .from_one = {"norm.weight"}})};
}

}  // namespace genesis::models
