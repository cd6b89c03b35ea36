// What the metadata of a GGUF file say of a model, as settings of the zoo.
#pragma once

#include "models/zoo.h"
#include "schema/file/foreign/gguf.h"

namespace genesis::models::gguf {

// max_position_embeddings is the longest text that the model can read. Throws one Error that lists everything that changes what the model computes and is not supported, or is not what it
// should be.
ZooSettings read_config(const Gguf& gguf);

}  // namespace genesis::models::gguf
