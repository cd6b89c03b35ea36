// Hugging Face's .safetensors files: a JSON header and named tensors. Checkpoints and data sets use them. The file is not
// trusted.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "schema/core/tensor.h"
#include "schema/file/io/mapped_file.h"

namespace genesis {

struct SafeTensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const MappedFile> file = {};  // file that the tensors are views into; null: from memory
};

// A tensor whose dtype the format has and this library lacks (F8_E4M3, U32, ...).
struct OtherTensor {
  std::string dtype;  // the format's name: "F8_E4M3"
  Shape shape;
  Tensor bytes;  // u8[bytes]
};
using OtherTensors = std::map<std::string, OtherTensor>;  // by name

// Returns the format's name of a dtype: "BF16".
std::string_view safetensors_name(DType dtype);

// Reads a file; tensors are views into the mapped file (copies if the file does not align them). Throws Error naming the path.
// `others` receives the tensors whose dtype this library lacks; the result omits them. If it is null, the first of them is an
// Error.
SafeTensors read_safetensors(const std::filesystem::path& path, OtherTensors* others = nullptr);

// Writes atomically; equal tensors give equal bytes.
void write_safetensors(const std::filesystem::path& path, const SafeTensors& contents);

// A tensor that is created only when it is written, so that a file of many tensors may be larger than memory.
struct TensorToWrite {
  TensorType type;               // with known sizes
  std::function<Tensor()> make;  // returns a tensor of `type`
};
// The same for such tensors. `on_written` is called after each tensor with the bytes of data written so far.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(uint64_t written)>& on_written = {});

// The same as read_safetensors() for bytes in memory, which `owner` keeps alive.
SafeTensors read_safetensors_from(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes,
                                  OtherTensors* others = nullptr);

}  // namespace genesis
