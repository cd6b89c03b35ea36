// The types of GGUF's tensors: how many elements stand in a block of how many bytes, and the numbers that a block means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schema/core/tensor.h"

namespace genesis {

struct GgufType {
  uint32_t number;  // in files
  const char* name;
  int64_t block_elements, block_bytes;
  std::optional<DType> plain;  // elements as they are, a dtype of ours
  // The elements of one block; null: this type is known by name and size only.
  void (*decode)(const std::byte* block, float* elements) = nullptr;

  bool is_readable() const { return plain || decode; }
};

const GgufType* find_gguf_type(uint32_t number);  // null: there is none
std::vector<std::string> readable_gguf_types();   // their names

// The numbers as a real dtype, computed in f32 and rounded once, by all cores; a view where they are stored as that, aligned.
// `bytes` are whole blocks of exactly the shape's elements, kept alive by `owner`. Throws Error for a type that is not readable.
Tensor gguf_tensor(const GgufType& type, const Shape& shape, const std::shared_ptr<const void>& owner,
                   std::span<const std::byte> bytes, DType dtype);

}  // namespace genesis
