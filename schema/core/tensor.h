// A tensor on the host: a type with known sizes and shared, immutable bytes. The bytes are allocated memory or a view into a
// mapped file; either way copies of a Tensor share them.
//
//     const Tensor x = Tensor::of<float>({{1, 2, 3}, {4, 5, 6}}), noise = Tensor::randn({2, 3}, 7);
//     double sum = 0;
//     for (float value : x.as<float>()) sum += value;
//     const bool is_matrix = x.rank() == 2 && x.size(-1) == 3 && Tensor::scalar(sum).item<double>() == 21;
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
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

  // Create tensors as the functions of torch do: Tensor::zeros({2, 3}).
  static Tensor zeros(const std::vector<int64_t>& sizes, DType dtype = DType::f32);
  static Tensor ones(const std::vector<int64_t>& sizes, DType dtype = DType::f32);
  // Throws Error if `dtype` is an integer type that cannot hold `value`.
  static Tensor full(const std::vector<int64_t>& sizes, double value, DType dtype = DType::f32);
  // Returns 0, 1, ..., end - 1, or start, start + step, ... up to, but without, `end`. Throws Error if step is 0.
  static Tensor arange(int64_t end, DType dtype = DType::i64);
  static Tensor arange(int64_t start, int64_t end, int64_t step = 1, DType dtype = DType::i64);
  // Return random numbers, uniform in [0, 1) or standard normal, that depend only on the seed. `dtype` is real.
  static Tensor rand(const std::vector<int64_t>& sizes, uint64_t seed, DType dtype = DType::f32);
  static Tensor randn(const std::vector<int64_t>& sizes, uint64_t seed, DType dtype = DType::f32);

  // Returns a tensor of these values, whose type gives the dtype: of({2, 3}, values), or without sizes a list, or a list of
  // rows: of<float>({{1, 2}, {3, 4}}). Throws Error if the sizes do not fit the values, or if rows differ in length.
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
  static Tensor of(const std::vector<T>& values) {
    return of({static_cast<int64_t>(values.size())}, values);
  }
  template <class T>
  static Tensor of(std::initializer_list<T> values) {
    return of(std::vector<T>(values));
  }
  template <class T>
  static Tensor of(std::initializer_list<std::initializer_list<T>> rows) {
    std::vector<T> values;
    for (const auto& row : rows) {
      if (row.size() != rows.begin()->size())
        fail("a row of {} values beside a first row of {}: give rows of one length", row.size(),
             rows.begin()->size());
      values.insert(values.end(), row.begin(), row.end());
    }
    if (rows.size() == 0) return of(values);  // {} is an empty list
    return of({static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.begin()->size())}, values);
  }
  template <class T>
  static Tensor scalar(T value) {
    return of<T>({}, std::vector<T>{value});
  }

  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  int rank() const { return type_.shape.rank(); }
  int64_t size(
      int64_t axis) const;  // a negative axis counts from the end; throws Error if there is no such axis
  int64_t numel() const { return type_.numel(); }
  int64_t bytes() const { return type_.bytes(); }
  const std::byte* data() const { return data_; }
  bool empty_handle() const { return data_ == nullptr; }

  // Returns the elements if T is the storage type of dtype(); throws Error otherwise.
  template <class T>
  std::span<const T> as() const {
    check_dtype(dtype_of<T>());
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(numel())};
  }
  // Returns the only element as a T. A bool converts to any T, an integer to every integer type that can hold its value and to
  // every real type, a real number to every real type, rounded; item<double>() therefore works for every dtype. Throws Error with
  // shape and dtype if the tensor does not have exactly one element, or if T cannot hold it.
  template <class T>
  T item() const;
  // Returns the elements converted to double, for any dtype.
  std::vector<double> to_doubles() const;

  // Returns the tensor converted to another real dtype, rounded; the tensor itself if it has that dtype already. Throws Error for
  // a dtype that is not real, because it could not represent the numbers.
  Tensor to(DType dtype) const;

  // Returns a tensor whose bytes the caller fills through mutable_data before sharing it.
  static Tensor uninitialized(const TensorType& type, std::byte** mutable_data);

 private:
  // The value of an element, regardless of the width of its dtype.
  using Number = std::variant<bool, int64_t, double>;

  void check_dtype(DType expected) const;
  Number only_element() const;
  // Throws Error: a type of this many bytes cannot hold the element. `kind`: 'b' is bool, 'i' signed, 'u' unsigned, 'f' real.
  [[noreturn]] void refuse_item(const Number& element, char kind, size_t bytes) const;

  TensorType type_;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
};

template <class T>
T Tensor::item() const {
  constexpr bool kIsReal = std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
  constexpr bool kIsBool = std::is_same_v<T, bool>;
  static_assert(kIsReal || std::is_integral_v<T>, "an element is a number or a bool");
  const Number element = only_element();
  if (const bool* truth = std::get_if<bool>(&element)) return static_cast<T>(*truth);
  if constexpr (!kIsBool) {
    if (const int64_t* integer = std::get_if<int64_t>(&element)) {
      if constexpr (kIsReal)
        return static_cast<T>(static_cast<double>(*integer));
      else if (std::in_range<T>(*integer))
        return static_cast<T>(*integer);
    } else if constexpr (kIsReal) {
      return static_cast<T>(std::get<double>(element));
    }
  }
  refuse_item(element, kIsBool ? 'b' : kIsReal ? 'f' : std::is_signed_v<T> ? 'i' : 'u', sizeof(T));
}

}  // namespace genesis
