// Qwen3, dense: "Qwen3 technical report" (2025).
#include "models/families/decoder/family.h"

namespace genesis::models {

Family qwen3_family() {
  return {.name = "qwen3",
          .summary = "Qwen3 language model: as qwen2, with q/k norms instead of biases",
          .network = decoder_network({.rope_theta = 1e6, .tie_word_embeddings = true},
                                     {.head_norms = HeadNorms::kPerHead}),
          .hugging_face = HuggingFaceForm{.model_type = "qwen3",
                                          .class_name = "Qwen3ForCausalLM",
                                          .config = decoder_config(
                                              {.vocab_size = 151936,
                                               .intermediate_size = 22016,
                                               .num_key_value_heads = 32,
                                               .head_dim = 128,
                                               .max_position_embeddings = 32768},
                                              {only_entry("attention_bias", {false}, true),
                                               only_entry("mlp_bias", {false}, false),
                                               chosen_windows_entry(4096, slides_from_max_window_layers)})},
          .gguf = decoder_gguf({.architecture = "qwen3", .pre_tokenizer = "qwen2"}),
          .vocabulary = {.pattern = "qwen2"}};
}

}  // namespace genesis::models
