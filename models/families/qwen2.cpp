// Qwen2 and Qwen2.5: "Qwen2 technical report" (2024).
#include "models/families/decoder/family.h"

namespace genesis::models {

Family qwen2_family() {
  return {.name = "qwen2",
          .summary = "Qwen2 language model: grouped-query attention, q/k/v biases, SwiGLU, RMSNorm",
          .network = decoder_network({.rope_theta = 1e6, .tie_word_embeddings = true}, {.qkv_biases = true}),
          .hugging_face = HuggingFaceForm{.model_type = "qwen2",
                                          .class_name = "Qwen2ForCausalLM",
                                          .config = decoder_config(
                                              {.vocab_size = 151936,
                                               .intermediate_size = 22016,
                                               .num_key_value_heads = 32,
                                               .max_position_embeddings = 32768},
                                              {only_entry("attention_bias", {true}, false),
                                               only_entry("mlp_bias", {false}, false),
                                               chosen_windows_entry(4096, slides_from_max_window_layers)})},
          .gguf = decoder_gguf({.architecture = "qwen2", .pre_tokenizer = "qwen2"}),
          .vocabulary = {.pattern = "qwen2", .classes = {"Qwen2Tokenizer", "Qwen2TokenizerFast"}}};
}

}  // namespace genesis::models
