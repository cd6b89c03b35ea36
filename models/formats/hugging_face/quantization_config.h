// Finds what says how the weights of a checkpoint are quantized.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace genesis::models::hugging_face {

// Returns quantization_config of config.json, or what older checkpoints have instead: compression_config there, or a file of its own
// beside it (hf_quant_config.json, quantize_config.json, quant_config.json). Null: the weights are not quantized. Throws Error for a
// method that is not read (quantized/methods.h).
nlohmann::json quantization_of(const nlohmann::json& config, const std::filesystem::path& folder);

}  // namespace genesis::models::hugging_face
