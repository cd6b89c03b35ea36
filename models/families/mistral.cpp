// Mistral: Jiang et al., "Mistral 7B" (2023). Its first version has windows, and later ones have none.
#include "models/families/decoder/family.h"

namespace genesis::models {

Family mistral_family() {
  return {.name = "mistral",
          .summary = "Mistral language model: as llama; all layers have the window that sliding_window gives",
          .network = decoder_network({}),
          .hugging_face = HuggingFaceForm{
              .model_type = "mistral",
              .class_name = "MistralForCausalLM",
              .config = decoder_config(
                  {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072},
                  {only_entry("attention_bias", {false}, false), only_entry("mlp_bias", {false}, false),
                   window_entry(4096)})}};
}

}  // namespace genesis::models
