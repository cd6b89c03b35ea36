// Packs of elements that are read or written in one access of 16 bytes, the widest a thread has: memory-bound kernels
// need them to reach the memory's bandwidth.
#pragma once

#include "backends/cuda/device/number.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

// N elements, read or written in one access of up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

// Returns whether every buffer of the step starts at a multiple of 16 bytes: a view may start anywhere.
inline bool aligned_to_packs(const KernelContext& c) {
  const auto is_aligned = [](const TensorView& v) { return reinterpret_cast<uintptr_t>(v.data) % 16 == 0; };
  return std::all_of(c.inputs.begin(), c.inputs.end(), is_aligned) &&
         std::all_of(c.outputs.begin(), c.outputs.end(), is_aligned);
}

template <class... Views>
bool aligned_to_packs(const TensorView& first, const Views&... rest) {
  return ((reinterpret_cast<uintptr_t>(first.data) % 16 == 0) && ... &&
          (reinterpret_cast<uintptr_t>(rest.data) % 16 == 0));
}

// Calls body(std::integral_constant<int, N>) with the widest pack of T that divides rows of `n` elements. Kernels for
// double, which is rare, are compiled only for N = 1.
template <class T, class Body>
void with_packs(const KernelContext& c, int64_t n, const Body& body) {
  constexpr int kWidest = std::is_same_v<T, double> ? 1 : 16 / sizeof(T);
  if constexpr (kWidest > 1)
    if (n % kWidest == 0 && aligned_to_packs(c)) return body(std::integral_constant<int, kWidest>{});
  body(std::integral_constant<int, 1>{});
}

}  // namespace genesis::cuda
