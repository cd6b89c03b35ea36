// Decoders in GGUF files: their metadata and the names of their tensors.
#pragma once

#include <string>

#include "models/families.h"

namespace genesis::models {

// Returns the form of a decoder with this architecture. Families that came from Llama's own files have `rows_in_pairs`: llama.cpp
// reorders the rows of their queries and keys. `pre_tokenizer` is that of files that do not name one.
GgufForm decoder_gguf(const std::string& architecture, const std::string& pre_tokenizer, bool rows_in_pairs);

}  // namespace genesis::models
