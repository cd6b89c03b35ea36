// The tensor types of GGUF: how many elements a block holds in how many bytes, and how a block decodes to numbers.
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
  uint32_t number;  // number of the type in files
  const char* name;
  int64_t block_elements, block_bytes;
  std::optional<DType> plain;  // the elements are stored unencoded in this dtype
  // Decodes the elements of one block; null if only the name and size of this type are known.
  void (*decode)(const std::byte* block, float* elements) = nullptr;

  bool is_readable() const { return plain || decode; }
};

const GgufType* find_gguf_type(uint32_t number);  // null if the number is unknown
std::vector<std::string> readable_gguf_types();   // names of the types that can be read

// Returns the elements in a real dtype: computed in f32 and rounded once, on all cores; a view if they are stored in that dtype
// and aligned. `bytes` must be exactly the blocks of the shape's elements, kept alive by `owner`. Throws Error for a type that is
// not readable.
Tensor gguf_tensor(const GgufType& type, const Shape& shape, const std::shared_ptr<const void>& owner,
                   std::span<const std::byte> bytes, DType dtype);

}  // namespace genesis
