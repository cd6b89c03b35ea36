// Element types on the device, and the arithmetic type that each computes in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "schema/core/dtype.h"

namespace genesis::cuda {

// The type in which elements of type T are computed and accumulated: f32 for the 16-bit floats, 64 bits for integers.
template <class T>
struct Wide {
  using type = int64_t;
};
template <>
struct Wide<float> {
  using type = float;
};
template <>
struct Wide<double> {
  using type = double;
};
template <>
struct Wide<__half> {
  using type = float;
};
template <>
struct Wide<__nv_bfloat16> {
  using type = float;
};
template <class T>
using wide_t = typename Wide<T>::type;

template <class T>
__device__ __forceinline__ wide_t<T> widen(T x) {
  return static_cast<wide_t<T>>(x);
}
template <>
__device__ __forceinline__ float widen(__half x) {
  return __half2float(x);
}
template <>
__device__ __forceinline__ float widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

// Rounds to nearest, ties to even.
template <class T>
__device__ __forceinline__ T narrow(wide_t<T> x) {
  return static_cast<T>(x);
}
template <>
__device__ __forceinline__ __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Converts any number to a T, rounded as the host does: 16-bit floats are rounded from f32.
template <class T, class X>
__device__ __forceinline__ T converted(X x) {
  if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>)
    return narrow<T>(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

template <class T>
struct Tag {
  using type = T;
};

// Calls body(Tag<T>{}) with the device type of `dtype`.
template <class Body>
decltype(auto) dispatch_float(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64:
      return body(Tag<double>{});
    case DType::f16:
      return body(Tag<__half>{});
    case DType::bf16:
      return body(Tag<__nv_bfloat16>{});
    default:
      return body(Tag<float>{});
  }
}
template <class Body>
decltype(auto) dispatch_index(DType dtype, Body&& body) {
  if (dtype == DType::i32) return body(Tag<int32_t>{});
  return body(Tag<int64_t>{});
}
template <class Body>
decltype(auto) dispatch_any(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::i8:
      return body(Tag<int8_t>{});
    case DType::u8:
      return body(Tag<uint8_t>{});
    case DType::i16:
      return body(Tag<int16_t>{});
    case DType::i32:
      return body(Tag<int32_t>{});
    case DType::i64:
      return body(Tag<int64_t>{});
    case DType::boolean:
      return body(Tag<bool>{});
    default:
      return dispatch_float(dtype, body);
  }
}
// Dispatches by the size of an element alone, for kernels that only move data.
template <class Body>
decltype(auto) dispatch_size(DType dtype, Body&& body) {
  switch (size_of(dtype)) {
    case 1:
      return body(Tag<uint8_t>{});
    case 2:
      return body(Tag<uint16_t>{});
    case 4:
      return body(Tag<uint32_t>{});
    default:
      return body(Tag<uint64_t>{});
  }
}

// Writes one element of a product's result, which is f32 if `wide` and has the operands' type T otherwise.
template <class T>
__device__ __forceinline__ void put_result(void* y, int64_t at, bool wide, float x) {
  if (wide)
    static_cast<float*>(y)[at] = x;
  else
    static_cast<T*>(y)[at] = narrow<T>(x);
}
// Reads an element of an addend, which has the dtype of the result.
template <class T>
__device__ __forceinline__ float addend_at(const void* addend, int64_t at, bool wide) {
  return wide ? static_cast<const float*>(addend)[at] : widen(static_cast<const T*>(addend)[at]);
}

}  // namespace genesis::cuda
