// Llama 1 to 3: Touvron et al., "LLaMA: open and efficient foundation language models" (2023).
#include "models/families/decoder/family.h"

namespace genesis::models {

Family llama_family() {
  return {
      .name = "llama",
      .summary = "Llama language model: as qwen2, without biases",
      .network = decoder_network({}),
      .hugging_face = HuggingFaceForm{.model_type = "llama",
                                      .class_name = "LlamaForCausalLM",
                                      .config = decoder_config(
                                          {}, {only_entry("attention_bias", {false}, true),
                                               only_entry("mlp_bias", {false}, true), no_windows_entry()})},
      .gguf = decoder_gguf({.architecture = "llama", .pre_tokenizer = "llama-bpe", .rows_in_pairs = true})};
}

}  // namespace genesis::models
