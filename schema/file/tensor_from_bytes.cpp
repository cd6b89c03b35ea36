#include "schema/file/tensor_from_bytes.h"

#include <algorithm>

namespace genesis {

void check_bools(DType dtype, std::span<const std::byte> bytes) {
  if (dtype == DType::boolean && std::ranges::any_of(bytes, [](std::byte b) { return b > std::byte{1}; }))
    fail("it holds bytes other than 0 and 1 as bools");
}

Tensor tensor_from_bytes(const TensorType& type, std::shared_ptr<const void> owner,
                         std::span<const std::byte> bytes) {
  const auto expected = static_cast<uint64_t>(type.bytes());
  if (bytes.size() != expected)
    fail("{} bytes of data found, {} takes {}", bytes.size(), type.to_string(), expected);
  if (expected == 0) return Tensor::zeros(type);
  check_bools(type.dtype, bytes);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % size_of(type.dtype) != 0)
    return Tensor::copy_of(type, bytes.data());
  return Tensor(type, std::move(owner), bytes.data());
}

}  // namespace genesis
