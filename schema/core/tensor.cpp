#include "schema/core/tensor.h"

#include <cstdlib>
#include <cstring>

#include "schema/core/human_bytes.h"

namespace genesis {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector register

std::shared_ptr<std::byte> allocate(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr)
    fail("cannot allocate {} of host memory: use smaller sizes or a machine with more memory",
         human_bytes(static_cast<double>(bytes)));
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

Tensor::Tensor(TensorType type, std::shared_ptr<const void> owner, const std::byte* data)
    : type_(std::move(type)), owner_(std::move(owner)), data_(data) {}

Tensor Tensor::uninitialized(const TensorType& type, std::byte** mutable_data) {
  auto memory = allocate(type.bytes());
  *mutable_data = memory.get();
  const std::byte* data = memory.get();
  return Tensor(type, std::move(memory), data);
}

Tensor Tensor::zeros(const TensorType& type) {
  std::byte* data;
  Tensor tensor = uninitialized(type, &data);
  std::memset(data, 0, static_cast<size_t>(type.bytes()));
  return tensor;
}

Tensor Tensor::copy_of(const TensorType& type, const void* source) {
  std::byte* data;
  Tensor tensor = uninitialized(type, &data);
  if (type.bytes() > 0) std::memcpy(data, source, static_cast<size_t>(type.bytes()));
  return tensor;
}

void Tensor::check_dtype(DType expected) const {
  if (data_ == nullptr) fail("the tensor holds no data");
  if (type_.dtype != expected) fail("the tensor is {}, not {}", name_of(type_.dtype), name_of(expected));
}

std::vector<double> Tensor::to_doubles() const {
  return dispatch(type_.dtype, [&](auto tag) {
    const auto values = as<typename decltype(tag)::type>();
    return std::vector<double>(values.begin(), values.end());
  });
}

}  // namespace genesis
