// Gemma 3, the text model: Gemma Team, "Gemma 3 technical report" (2025). As Gemma 2, with norms of heads instead of limits, and a
// rotation of its own for layers with windows.
#include <cmath>

#include "models/config_sizes.h"
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

struct Gemma3Config : DecoderConfig {
  int64_t query_pre_attn_scalar = 256;  // scores are divided by its square root
  double final_logit_softcapping = 0;   // limit of logits; 0: none
  double rope_local_base_freq = 1e4;    // the base of the rotation in layers with a window

  static void fields(auto& self, auto&& visit) {
    DecoderConfig::fields(self, visit);
    visit("query_pre_attn_scalar", self.query_pre_attn_scalar);
    visit("final_logit_softcapping", self.final_logit_softcapping);
    visit("rope_local_base_freq", self.rope_local_base_freq);
  }
};

std::unique_ptr<Model> make_gemma3(const std::string& family, const Gemma3Config& c, uint64_t seed) {
  check_size(family, "query_pre_attn_scalar", c.query_pre_attn_scalar);
  if (!(c.rope_local_base_freq > 0))
    fail("{}: rope_local_base_freq is {}, it must be positive", family, c.rope_local_base_freq);
  const auto design_of = [&](int64_t layer) {
    const int64_t window = c.window_of(layer);
    return LayerDesign{.norms = kNormsAround,
                       .head_norms = HeadNorms::kPerHead,
                       .local_theta = window > 0 ? c.rope_local_base_freq : 0,
                       .score_scale = 1 / std::sqrt(static_cast<double>(c.query_pre_attn_scalar)),
                       .window = window,
                       .mlp = MlpKind::kGeGlu};
  };
  return make_decoder(family, c, design_of, seed,
                      {.norm = NormKind::kRmsFromOne,
                       .embedding_scale = std::sqrt(static_cast<double>(c.hidden_size)),
                       .logits_limit = c.final_logit_softcapping});
}

}  // namespace

Family gemma3_family() {
  Gemma3Config standard;
  standard.rope_theta = 1e6;
  standard.tie_word_embeddings = true;
  return {
      .name = "gemma3",
      .summary = "Gemma 3 language model: as gemma2, with q/k norms and rotations by layer, without limits",
      .network = make_network(standard, make_gemma3),
      .hugging_face =
          HuggingFaceForm{.model_type = "gemma3_text",
                          .class_name = "Gemma3ForCausalLM",
                          .config = decoder_config({.vocab_size = 262208,
                                                    .hidden_size = 2304,
                                                    .intermediate_size = 9216,
                                                    .num_hidden_layers = 26,
                                                    .num_attention_heads = 8,
                                                    .num_key_value_heads = 4,
                                                    .head_dim = 256,
                                                    .max_position_embeddings = 131072,
                                                    .rope_theta = 1e6,
                                                    .tie_word_embeddings = true,
                                                    .rope_local_base_freq = 1e4,
                                                    .activation_name = "hidden_activation",
                                                    .activations = names_of_gelu_tanh()},
                                                   {size_entry("query_pre_attn_scalar", 256),
                                                    only_entry("attn_logit_softcapping", {nullptr}, false),
                                                    optional_number_entry("final_logit_softcapping", nullptr),
                                                    layer_windows_entry(4096, slides_by_pattern(6)),
                                                    only_entry("attention_bias", {false}, true),
                                                    only_entry("use_bidirectional_attention", {false}, false),
                                                    ignored_entry({"hidden_act", "cache_implementation",
                                                                   "sliding_window_size"})})},
      .gguf = decoder_gguf({.architecture = "gemma3",
                            .pre_tokenizer = "default",
                            .windows = GgufWindows{.pattern = 6},
                            .layers = {{"post_attention_norm", "post_attention_layernorm"},
                                       {"ffn_norm", "pre_feedforward_layernorm"},
                                       {"post_ffw_norm", "post_feedforward_layernorm"}},
                            .more = {gemma_score_entry(62), number_entry("final_logit_softcapping", 0.0),
                                     number_entry("rope.freq_base_swa", 10000.0, "rope_local_base_freq")},
                            .from_one = {"norm.weight"}})};
}

}  // namespace genesis::models
