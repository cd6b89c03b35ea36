// Does with a file of unknown worth all that a reader may do. A damaged one must end in genesis::Error; any
// other exception, crash or sanitizer report is a finding. Used by the mutation tests and the libFuzzer
// targets.
#pragma once

#include <string>

namespace genesis::testing {

// True when it loaded; then it was also laid out again and its weights were read.
bool try_load_model(const std::string& bytes);
bool try_load_npy(const std::string& bytes);
bool try_load_safetensors(const std::string& bytes);
bool try_load_gguf(const std::string& bytes);

}  // namespace genesis::testing
