// Addition that wraps around for integers, as users expect of an overflowing sum; signed overflow is undefined in C++. A sum of
// bools is true if any is true. For kernels of the CPU that add elements of any dtype.
#pragma once

#include <cstdint>
#include <type_traits>

namespace genesis {

template <class T>
T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return static_cast<T>(a + b);
}

}  // namespace genesis
