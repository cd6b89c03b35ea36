// Hugging Face's .safetensors files: named tensors behind a JSON header. Checkpoints and data come in them.
// What is read is not trusted.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "schema/core/tensor.h"
#include "schema/file/io/mapped_file.h"

namespace genesis {

struct SafeTensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const MappedFile> file = {};  // that tensors are views into; null: it was not a file
};

// Names of dtypes as the format spells them, by the name of a tensor.
using DtypeNames = std::map<std::string, std::string>;

// Tensors are views into the mapped file (copies where it does not align them). Throws Error naming the path.
// `unsupported` gets the tensors whose dtype the format has and this library does not (F8_E4M3, U32, ...), which the result
// then lacks; null: the first of them is an Error.
SafeTensors read_safetensors(const std::filesystem::path& path, DtypeNames* unsupported = nullptr);

// Atomic; the same tensors give the same bytes.
void write_safetensors(const std::filesystem::path& path, const SafeTensors& contents);

// A tensor that is made only when it is written, so that a file of many may be larger than memory.
struct TensorToWrite {
  TensorType type;               // known sizes
  std::function<Tensor()> make;  // of this type
};
// The same of such tensors. `on_written` is called now and then with the bytes of data
// that this file has by then.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(uint64_t written)>& on_written = {});

// The same from bytes in memory, which `owner` keeps alive.
SafeTensors read_safetensors_from(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes,
                                  DtypeNames* unsupported = nullptr);

}  // namespace genesis
