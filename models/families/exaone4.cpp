// EXAONE 4.0 (LG AI Research, 2025): norms after attention and MLP, and of each head. In models with windows, layers that see all
// tokens do not rotate.
#include "models/families/decoder/family.h"

namespace genesis::models {
namespace {

std::unique_ptr<Model> make_exaone4(const std::string& family, const DecoderConfig& c, uint64_t seed) {
  const auto design_of = [&](int64_t layer) {
    const int64_t window = c.window_of(layer);
    const bool rotates = c.sliding_window == 0 || window > 0;
    return LayerDesign{.norms = kNormsAfter,
                       .head_norms = HeadNorms::kPerHead,
                       .rotation = rotates ? RotationKind::kRotary : RotationKind::kNone,
                       .window = window};
  };
  return make_decoder(family, c, design_of, seed);
}

}  // namespace

Family exaone4_family() {
  return {.name = "exaone4",
          .summary =
              "EXAONE 4 language model: norms after the layers, q/k norms, windows with rotation between "
              "full layers without",
          .network = make_network(DecoderConfig{.rms_norm_eps = 1e-5}, make_exaone4),
          .hugging_face =
              HuggingFaceForm{.model_type = "exaone4",
                              .class_name = "Exaone4ForCausalLM",
                              .config = decoder_config({.vocab_size = 102400,
                                                        .intermediate_size = 16384,
                                                        .num_key_value_heads = 32,
                                                        .norm_eps = 1e-5},
                                                       {only_entry("attention_bias", {false}, false),
                                                        only_entry("mlp_bias", {false}, false),
                                                        layer_windows_entry(4096, slides_by_pattern(4))})},
          .gguf = decoder_gguf({.architecture = "exaone4",
                                .pre_tokenizer = "exaone4",
                                .windows = GgufWindows{.pattern = 4},
                                .layers = {{"ffn_norm", ""},
                                           {"attn_norm", ""},
                                           {"post_attention_norm", "post_attention_layernorm"},
                                           {"post_ffw_norm", "post_feedforward_layernorm"}}})};
}

}  // namespace genesis::models
