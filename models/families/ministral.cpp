// Ministral (Mistral AI, 2024): a Mistral whose layer_types say which layers have the window.
#include "models/families/decoder/family.h"

namespace genesis::models {

Family ministral_family() {
  return {.name = "ministral",
          .summary = "Ministral language model: as llama, with windows by layer",
          .network = decoder_network({}),
          .hugging_face = HuggingFaceForm{
              .model_type = "ministral",
              .class_name = "MinistralForCausalLM",
              .config = decoder_config(
                  {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072},
                  {only_entry("attention_bias", {false}, false), only_entry("mlp_bias", {false}, false),
                   layer_windows_entry(4096, all_slide)})}};
}

}  // namespace genesis::models
