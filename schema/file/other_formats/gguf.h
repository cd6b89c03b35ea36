// Reads GGUF, the file format of llama.cpp and ggml: named metadata, then tensors, many of them quantized in blocks
// (gguf_blocks.h). Supports versions 2 and 3, little-endian. The file is not trusted. Layout:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "schema/core/shape.h"
#include "schema/file/io/mapped_file.h"
#include "schema/file/other_formats/gguf_blocks.h"

namespace genesis {

// A metadata value. Integers of all widths are int64_t, real numbers double; a list of single bytes is a string.
using GgufValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufTensor {
  const GgufType* type;
  Shape shape;  // row-major, as everywhere in the library; the file lists the sizes in reverse order
  std::span<const std::byte> bytes;
};

struct Gguf {
  std::map<std::string, GgufValue> metadata;
  std::map<std::string, GgufTensor> tensors;
  std::shared_ptr<const void> owner;  // keeps the bytes alive
  MappedFiles files = {};             // files that the tensors are views into; empty if read from memory
};

// Reads a file; tensors are views into the mapped file. The metadata may say that it is one part of a model in several files
// (gguf_split.h). As in llama.cpp, tensors must follow one another in the order of the header, aligned, with nothing between or
// after them; a damaged size or type therefore shows up as a gap or an overlap. Throws Error naming the path.
Gguf read_gguf(const std::filesystem::path& path);

// The same for bytes in memory, which `owner` keeps alive.
Gguf read_gguf_from(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

}  // namespace genesis
