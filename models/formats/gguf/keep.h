// Keeps tensors of a GGUF file in a format of the library with the same blocks. No value changes.
#pragma once

#include "schema/encoding/state_format.h"
#include "schema/file/other_formats/gguf.h"

namespace genesis::models::gguf {

// Returns the tensor's blocks in the format that has the same values; no values if its type has no such format, it is no matrix, or
// it has a quant that the format's kernels do not compute with (-128).
EncodedValues kept(const GgufTensor& tensor, DType meant);

}  // namespace genesis::models::gguf
