// Reads the metadata of a GGUF file as settings of a family.
#pragma once

#include "models/families.h"
#include "schema/file/other_formats/gguf.h"

namespace genesis::models::gguf {

// Returns the model's settings; max_position_embeddings is the longest text that it can read. Throws one Error that lists all
// metadata that are invalid, or that change what the model computes in an unsupported manner. Metadata of the architecture that no
// table knows are such unless they are false, zero or empty. The error for an unknown architecture lists the known ones.
FamilySettings read_config(const Gguf& gguf);

}  // namespace genesis::models::gguf
