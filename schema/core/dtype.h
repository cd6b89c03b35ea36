// Element types of tensors, their names, sizes and promotion (PyTorch's rules).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "schema/core/float16.h"

namespace genesis {

// The numbers are written in files: append only.
enum class DType : uint8_t {
  f32 = 0,
  f64 = 1,
  f16 = 2,
  bf16 = 3,
  i8 = 4,
  u8 = 5,
  i16 = 6,
  i32 = 7,
  i64 = 8,
  boolean = 9
};
inline constexpr int kNumDTypes = 10;

size_t size_of(DType dtype);            // bytes of one element
std::string_view name_of(DType dtype);  // "f32", ..., "bool"
std::optional<DType> parse_dtype(std::string_view name);

inline bool is_float(DType t) { return t <= DType::bf16; }
inline bool is_integer(DType t) { return t >= DType::i8 && t <= DType::i64; }  // bool is neither
inline bool is_low_precision(DType t) { return t == DType::f16 || t == DType::bf16; }
// Returns the dtype in which sums, statistics and losses of these numbers are computed and kept.
inline DType wide_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

// Returns the dtype of `a op b`: float before integer before bool, the wider one within a kind; bf16 with f16 gives f32.
DType promote(DType a, DType b);

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type that stores `dtype`; bool is stored as one byte, 0 or 1.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::f16:
      return f(TypeTag<f16>{});
    case DType::bf16:
      return f(TypeTag<bf16>{});
    case DType::i8:
      return f(TypeTag<int8_t>{});
    case DType::u8:
      return f(TypeTag<uint8_t>{});
    case DType::i16:
      return f(TypeTag<int16_t>{});
    case DType::i32:
      return f(TypeTag<int32_t>{});
    case DType::i64:
      return f(TypeTag<int64_t>{});
    case DType::boolean:
      break;
  }
  return f(TypeTag<bool>{});
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, f16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::i16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::i64;
  else {
    static_assert(std::is_same_v<T, bool>, "not an element type");
    return DType::boolean;
  }
}

}  // namespace genesis
