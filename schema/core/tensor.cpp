#include "schema/core/tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "schema/core/parallel.h"
#include "schema/core/philox.h"
#include "schema/messages/human_bytes.h"

namespace genesis {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector register

std::shared_ptr<std::byte> allocate(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr)
    fail("cannot allocate {} of host memory: use smaller sizes or a machine with more memory",
         human_bytes(bytes));
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

namespace {

// Returns a tensor whose elements write(T* first, count) fills, where T is the storage type of `dtype`.
template <class Write>
Tensor filled(const TensorType& type, const Write& write) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(type.dtype, [&]<class T>(TypeTag<T>) {
    write(reinterpret_cast<T*>(data), static_cast<size_t>(type.numel()));
  });
  return tensor;
}

// Converts a number that T can hold; throws Error for a number that T, an integer type, cannot hold.
template <class T>
T element_of(double value, DType dtype) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const bool is_whole = value >= -0x1p63 && value < 0x1p63 && std::floor(value) == value;
    if (!is_whole || !std::in_range<T>(static_cast<int64_t>(value)))
      fail("{} is no value of {}: give a whole number in its range, or make the tensor f32", value,
           name_of(dtype));
    return static_cast<T>(static_cast<int64_t>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Returns numbers from the seed's random stream, made as f32 by fill(numbers, seed) and rounded to `dtype`.
template <class Fill>
Tensor random_numbers(const std::vector<int64_t>& sizes, uint64_t seed, DType dtype, const Fill& fill) {
  std::byte* data;
  const Tensor tensor = Tensor::uninitialized({DType::f32, Shape::of(sizes)}, &data);
  fill(std::span(reinterpret_cast<float*>(data), static_cast<size_t>(tensor.numel())), seed);
  return tensor.to(dtype);
}

}  // namespace

Tensor Tensor::zeros(const std::vector<int64_t>& sizes, DType dtype) {
  return zeros(TensorType{dtype, Shape::of(sizes)});
}

Tensor Tensor::ones(const std::vector<int64_t>& sizes, DType dtype) { return full(sizes, 1, dtype); }

Tensor Tensor::full(const std::vector<int64_t>& sizes, double value, DType dtype) {
  return filled({dtype, Shape::of(sizes)}, [&]<class T>(T* first, size_t count) {
    std::fill_n(first, count, element_of<T>(value, dtype));
  });
}

Tensor Tensor::arange(int64_t end, DType dtype) { return arange(0, end, 1, dtype); }

Tensor Tensor::arange(int64_t start, int64_t end, int64_t step, DType dtype) {
  if (step == 0) fail("arange from {} to {} with step 0: give a positive or negative step", start, end);
  const int64_t sign = step < 0 ? -1 : 1, distance = sign * (end - start), stride = sign * step;
  const int64_t length = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  return filled({dtype, {length}}, [&]<class T>(T* first, size_t count) {
    for (size_t i = 0; i < count; ++i)
      first[i] = element_of<T>(static_cast<double>(start + step * static_cast<int64_t>(i)), dtype);
  });
}

Tensor Tensor::rand(const std::vector<int64_t>& sizes, uint64_t seed, DType dtype) {
  return random_numbers(sizes, seed, dtype, [](std::span<float> numbers, uint64_t from) {
    fill_uniform(numbers, from, 0, 0, 1);
  });
}

Tensor Tensor::randn(const std::vector<int64_t>& sizes, uint64_t seed, DType dtype) {
  return random_numbers(sizes, seed, dtype,
                        [](std::span<float> numbers, uint64_t from) { fill_normal(numbers, from, 0, 0, 1); });
}

int64_t Tensor::size(int64_t axis) const { return type_.shape[normalize_axis(axis, rank())].value(); }

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

Tensor::Number Tensor::only_element() const {
  if (data_ == nullptr) fail("item() of a tensor that holds no data");
  if (numel() != 1)
    fail(
        "item() needs a tensor with exactly one element, this one is {} and has {}: read all of them with "
        "as<T>()",
        type_.to_string(), numel());
  return dispatch(type_.dtype, [&]<class T>(TypeTag<T>) -> Number {
    const T element = as<T>()[0];
    if constexpr (std::is_same_v<T, bool>)
      return element;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(element);
    else
      return static_cast<double>(element);
  });
}

void Tensor::refuse_item(const Number& element, char kind, size_t bytes) const {
  const std::string wanted = kind == 'b' ? "bool" : kind + std::to_string(8 * bytes);
  if (const int64_t* integer = std::get_if<int64_t>(&element); integer && kind != 'b')
    fail("item() of a tensor that is {}: {} does not fit in {}, ask for a wider type", type_.to_string(),
         *integer, wanted);
  fail("item() of a tensor that is {} cannot give {}: ask for item<{}>()", type_.to_string(), wanted,
       std::holds_alternative<double>(element) ? "double" : "int64_t");
}

namespace {

constexpr int64_t kConvertedAtOnce = 1 << 20;  // elements that one thread converts at a time

template <class From, class To>
void convert(std::span<const From> from, To* to) {
  in_parallel(static_cast<int64_t>(from.size()), kConvertedAtOnce, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i)
      to[i] = static_cast<To>(from[i]);
  });
}

}  // namespace

Tensor Tensor::to(DType dtype) const {
  if (dtype == type_.dtype) return *this;
  if (!is_float(dtype))
    fail("a tensor that is {} does not become {}: only real dtypes take other numbers, rounded",
         type_.to_string(), name_of(dtype));
  std::byte* data;
  Tensor result = uninitialized({dtype, type_.shape}, &data);
  dispatch(type_.dtype, [&](auto from) {
    dispatch(dtype, [&]<class To>(TypeTag<To>) {
      if constexpr (!std::is_integral_v<To>)
        convert(as<typename decltype(from)::type>(), reinterpret_cast<To*>(data));
    });
  });
  return result;
}

std::vector<double> Tensor::to_doubles() const {
  return dispatch(type_.dtype, [&](auto tag) {
    const auto values = as<typename decltype(tag)::type>();
    return std::vector<double>(values.begin(), values.end());
  });
}

}  // namespace genesis
