// Reads the metadata of a GGUF file as settings of a model of the zoo.
#pragma once

#include "models/zoo.h"
#include "schema/file/other_formats/gguf.h"

namespace genesis::models::gguf {

// Returns the model's settings; max_position_embeddings is the longest text that it can read. Throws one Error that lists all
// metadata that are invalid, or that change what the model computes in an unsupported manner.
ZooSettings read_config(const Gguf& gguf);

}  // namespace genesis::models::gguf
