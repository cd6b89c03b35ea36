// Does everything with an untrusted file that a reader may do. A damaged file must end in genesis::Error; any other
// exception, crash or sanitizer report is a finding.
#pragma once

#include <string>

namespace genesis::testing {

// Each function returns true if the file loaded. A model was then also written again, and its weights were read.
bool try_load_model(const std::string& bytes);
bool try_load_npy(const std::string& bytes);
bool try_load_safetensors(const std::string& bytes);
bool try_load_gguf(const std::string& bytes);

}  // namespace genesis::testing
