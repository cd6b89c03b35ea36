// GGUF, the files of llama.cpp and ggml: metadata by name, then tensors, many of them quantised in blocks (gguf_blocks.h).
// Read are versions 2 and 3, little-endian. What is read is not trusted. Layout:
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
#include "schema/file/foreign/gguf_blocks.h"
#include "schema/file/io/mapped_file.h"

namespace genesis {

// Integers of all widths are int64_t, real numbers double; a list of single bytes is a text.
using GgufValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufTensor {
  const GgufType* type;
  Shape shape;  // row-major, as everywhere here: the file has the sizes the other way round
  std::span<const std::byte> bytes;
};

struct Gguf {
  std::map<std::string, GgufValue> metadata;
  std::map<std::string, GgufTensor> tensors;
  std::shared_ptr<const void> owner;  // keeps the bytes alive
  MappedFiles files = {};             // that tensors are views into; none: it was not a file
};

// Tensors are views into the mapped file, which is one of the parts of a model if the metadata say so (gguf_split.h). As in
// llama.cpp, tensors lie one behind the other in the order of the header, aligned, with nothing between or behind them: a
// size or a type that was damaged leaves a gap or an overlap. Throws Error naming the path.
Gguf read_gguf(const std::filesystem::path& path);

// The same from bytes in memory, which `owner` keeps alive.
Gguf read_gguf_from(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

}  // namespace genesis
