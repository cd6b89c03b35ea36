// A tensor on the host: a type with known sizes and shared, immutable bytes. The bytes may be memory of our
// own or a view into a mapped file; either way copies of a Tensor share them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "schema/core/error.h"
#include "schema/core/shape.h"

namespace genesis {

class Tensor {
 public:
  Tensor() = default;
  // `owner` keeps `data` alive.
  Tensor(TensorType type, std::shared_ptr<const void> owner, const std::byte* data);

  static Tensor zeros(const TensorType& type);
  static Tensor copy_of(const TensorType& type, const void* data);
  template <class T>
  static Tensor of(const std::vector<int64_t>& sizes, const std::vector<T>& values) {
    TensorType type{dtype_of<T>(), Shape::of(sizes)};
    if (type.numel() != static_cast<int64_t>(values.size()))
      fail("{} values given for a tensor of shape {}", values.size(), type.shape.to_string());
    if constexpr (std::is_same_v<T, bool>) {
      const std::vector<uint8_t> bytes(values.begin(), values.end());
      return copy_of(type, bytes.data());
    } else {
      return copy_of(type, values.data());
    }
  }
  template <class T>
  static Tensor scalar(T value) {
    return of<T>({}, std::vector<T>{value});
  }

  const TensorType& type() const { return type_; }
  int64_t numel() const { return type_.numel(); }
  int64_t bytes() const { return type_.bytes(); }
  const std::byte* data() const { return data_; }
  bool empty_handle() const { return data_ == nullptr; }

  // The elements, when T is the storage type of dtype(); throws Error otherwise.
  template <class T>
  std::span<const T> as() const {
    check_dtype(dtype_of<T>());
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(numel())};
  }
  // The elements converted to double, whatever the dtype.
  std::vector<double> to_doubles() const;

  // A tensor whose bytes the caller fills in through mutable_data before sharing it.
  static Tensor uninitialized(const TensorType& type, std::byte** mutable_data);

 private:
  void check_dtype(DType expected) const;

  TensorType type_;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
};

}  // namespace genesis
