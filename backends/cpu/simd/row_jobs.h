// Helpers of the row kernels outside their SIMD code: dispatch on the dtypes of rows, and the decision to write results around
// the caches.
#pragma once

#include <cstdint>

#include "backends/kernel.h"

namespace genesis::cpu {

// Returns f(TypeTag<T>) for a dtype that rows may have (f32, bf16, f16), else a default-constructed result, such as null.
template <class F>
auto dispatch_rows(DType dtype, const F& f) -> decltype(f(TypeTag<float>())) {
  switch (dtype) {
    case DType::f32:
      return f(TypeTag<float>());
    case DType::bf16:
      return f(TypeTag<bf16>());
    case DType::f16:
      return f(TypeTag<f16>());
    default:
      return decltype(f(TypeTag<float>()))();
  }
}

// Bytes; a larger result does not stay in the caches until it is read.
inline constexpr int64_t kStreamBytes = 32 << 20;

// Returns true if rows of `n` elements of `out` should be written with non-temporal stores, which need whole aligned vectors (64
// bytes in f32). Memory that was just read (in-place results) is better written through the caches.
inline bool streams(const TensorView& out, int64_t n, const void* read) {
  return out.bytes() >= kStreamBytes && n % 32 == 0 && reinterpret_cast<uintptr_t>(out.data) % 64 == 0 &&
         out.data != read;
}

}  // namespace genesis::cpu
