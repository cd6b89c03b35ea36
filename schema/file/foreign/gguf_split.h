// A model in several GGUF files, as llama.cpp's gguf-split cuts it: NAME-00001-of-00003.gguf has the metadata, and each part
// some of the tensors.
#pragma once

#include <filesystem>

#include "schema/file/foreign/gguf.h"

namespace genesis {

// The file at `path`; if its metadata say that it is the first of several parts, with the tensors of the others, which are
// found beside it by their names. Throws Error naming the file: it is another part than the first, a part is missing, or what
// the parts say about their place, their number and their tensors does not agree.
Gguf read_gguf_model(const std::filesystem::path& path);

}  // namespace genesis
