// The config.json of encoders in transformers: the entries that all classes have, and those of their heads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/families.h"

namespace genesis::models {

// The values that a class of transformers takes for entries that are absent, and its names for some of them.
struct EncoderDefaults {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t max_position_embeddings = 512;
  double norm_eps = 1e-12;
  const char* hidden_size_name = "hidden_size";
  const char* intermediate_size_name = "intermediate_size";
  const char* layers_name = "num_hidden_layers";
  const char* heads_name = "num_attention_heads";
  const char* activation_name = "hidden_act";
  const char* norm_eps_name = "layer_norm_eps";  // null: it is no entry, but the setting's standard value
};

// Returns the entries that all encoders have, followed by those of the family. `stem` begins the names of the family's classes:
// "Bert" for BertModel.
ConfigEntries encoder_config(const std::string& stem, const EncoderDefaults& defaults,
                             const ConfigEntries& more);

// Returns the entry of an activation other than none, which the setting has under the name of Activation.
ConfigEntry activation_entry(const std::string& name, const std::string& setting);

// Tensors of the head for masked tokens: its first weight, the product that makes logits, and the bias of the logits.
struct MlmTensors {
  std::string dense, decoder, bias;
};

// Returns the form of a family with these entries. `prefix` ends with a '.', and `embedding` is the table of tokens below it.
HuggingFaceForm encoder_form(const std::string& model_type, const std::string& stem,
                             const std::string& prefix, const std::string& embedding, ConfigEntries config,
                             const MlmTensors& head);

}  // namespace genesis::models
