// Reads and writes LoRA adapters in the format of PEFT's save_pretrained(): adapter_config.json and adapter_model.safetensors,
// whose tensors are "base_model.model.<layer>.lora_A.weight" [rank, in] and "...lora_B.weight" [out, rank].
#pragma once

#include <filesystem>

#include "passes/lora/lora.h"

namespace genesis::models::hugging_face {

// Returns true if the folder holds an adapter.
bool is_adapter_folder(const std::filesystem::path& path);

// Adds the adapter to a model without one (passes::add_lora), with the values in the file. Ranks and alphas by layer
// (rank_pattern, alpha_pattern) mean the same as in PEFT. What is more than an addition to a linear layer (DoRA, embeddings, biases,
// modules_to_save) is written into the model's own weights (adapter_weights.h); an adapter that consists of it leaves none to
// train or merge. An adapter of a layer that checkpoints hold as one matrix and the model as several (qkv_proj of Phi-3) becomes
// one of each part, and save_adapter() joins them again (adapter_fused.h). Weights of the base model in the file are ignored if the model has the same values. Throws Error that lists
// all unsupported features (other methods), or all tensors that are missing, unexpected or of another shape.
void load_adapter(Model& model, const std::filesystem::path& folder);

// Writes the adapters of the model. Their values are the initial values of its states (with_values() of a session, or a loaded
// checkpoint). `base` is the name from which peft loads the base model; if it is empty, the name in the model's own configuration
// is used, if any. Weights that load_adapter() has changed are part of it, as modules_to_save and biases. The folder is written completely or not at all. An existing folder with an adapter is replaced only with
// `replace`. Throws Error if the model has no adapters.
void save_adapter(const Model& model, const std::filesystem::path& folder, const std::string& base = "",
                  bool replace = false);

}  // namespace genesis::models::hugging_face
