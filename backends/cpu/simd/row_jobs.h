// What the row kernels of several files share outside their SIMD code: the types of their rows, a tensor seen
// as rows along one axis, and when results go past the caches.
#pragma once

#include <cstdint>

#include "backends/kernel.h"

namespace genesis::cpu {

// f(TypeTag<T>) for the types that rows may have, else nothing, or null.
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

// Larger results than this do not stay in the caches until they are read.
inline constexpr int64_t kStreamBytes = 32 << 20;

// Whether rows of `n` elements of `out` are written with non-temporal stores, which need whole aligned
// vectors (of 64 bytes in f32). Memory that was just read (in-place results) is better written through the
// caches.
inline bool streams(const TensorView& out, int64_t n, const void* read) {
  return out.bytes() >= kStreamBytes && n % 32 == 0 && reinterpret_cast<uintptr_t>(out.data) % 64 == 0 &&
         out.data != read;
}

}  // namespace genesis::cpu
