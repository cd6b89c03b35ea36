// LoRA adapters as PEFT's save_pretrained() leaves them: adapter_config.json and adapter_model.safetensors, whose tensors are
// "base_model.model.<layer>.lora_A.weight" [rank, in] and "...lora_B.weight" [out, rank].
#pragma once

#include <filesystem>

#include "passes/lora/lora.h"

namespace genesis::models::hugging_face {

// Whether the folder holds an adapter.
bool is_adapter_folder(const std::filesystem::path& path);

// Adds the adapter to a model without one (passes::add_lora), with the values in the file; ranks and alphas by layer
// (rank_pattern, alpha_pattern) are PEFT's. Weights of the base model that the file has too are left out where the model has
// the same. Throws Error that lists all that is not supported (other methods, DoRA, trained biases, heads that were trained),
// or all tensors that are missing, unexpected or of another shape.
void load_adapter(Model& model, const std::filesystem::path& folder);

// Writes the adapters of the model, which are its states' initial values (with_values() of a session, or a loaded
// checkpoint). `base` is what peft loads the base model from; where it is empty, what the model's own configuration calls it,
// if it does. A folder is there as a whole or not at all, and one with an adapter is replaced only where `replace` says so.
// Throws Error when the model has no adapters.
void save_adapter(const Model& model, const std::filesystem::path& folder, const std::string& base = "",
                  bool replace = false);

}  // namespace genesis::models::hugging_face
