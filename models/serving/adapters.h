// Reads the LoRA adapters that a server has beside its model.
#pragma once

#include <filesystem>
#include <string>

#include "models/generation/adapter_entries.h"

namespace genesis::serving {

// Returns the adapter of a folder as PEFT saves it, or of a file in it. Throws Error as hugging_face::load_adapter() does, and for an
// adapter that changes weights of the model itself, which all texts share.
text::Adapter read_adapter(const Model& model, const std::string& name, const std::filesystem::path& path);

}  // namespace genesis::serving
