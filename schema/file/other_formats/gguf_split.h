// Reads a model that llama.cpp's gguf-split divided into several GGUF files: NAME-00001-of-00003.gguf has the metadata, and each
// file some of the tensors.
#pragma once

#include <filesystem>

#include "schema/file/other_formats/gguf.h"

namespace genesis {

// Reads the file at `path`. If its metadata say that it is the first of several files, adds the tensors of the others, which it
// finds beside it by their names. Throws Error naming the file if `path` is not the first one, if a file is missing, or if the
// files disagree about their number, their order or the number of tensors.
Gguf read_gguf_model(const std::filesystem::path& path);

}  // namespace genesis
