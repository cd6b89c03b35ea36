// Does everything with an untrusted quantized checkpoint that an import does before it knows the model's shapes, and decodes all
// weights. A damaged checkpoint must end in genesis::Error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace genesis::testing {

// Returns true if all weights were read. `config` is a quantization_config, `bytes` a .safetensors file.
bool try_quantized(const nlohmann::json& config, const std::string& bytes);

}  // namespace genesis::testing
