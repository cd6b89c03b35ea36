// OLMo 2: OLMo Team, "2 OLMo 2 Furious" (2024). Norms follow attention and MLP, and whole queries and keys are normalized.
#include "models/families/decoder/family.h"

namespace genesis::models {

Family olmo2_family() {
  return {
      .name = "olmo2",
      .summary =
          "OLMo 2 language model: as llama, with norms after the layers, and of whole queries and keys",
      .network =
          decoder_network({.rms_norm_eps = 1e-5}, {.norms = kNormsAfter, .head_norms = HeadNorms::kWhole}),
      .hugging_face = HuggingFaceForm{.model_type = "olmo2",
                                      .class_name = "Olmo2ForCausalLM",
                                      .config = decoder_config(
                                          {.vocab_size = 50304, .norm_eps = 1e-5},
                                          {only_entry("attention_bias", {false}, true), no_windows_entry()})},
      .gguf = decoder_gguf({.architecture = "olmo2",
                            .pre_tokenizer = "dbrx",
                            .layers = {{"ffn_norm", ""},
                                       {"attn_norm", ""},
                                       {"post_attention_norm", "post_attention_layernorm"},
                                       {"post_ffw_norm", "post_feedforward_layernorm"}}})};
}

}  // namespace genesis::models
