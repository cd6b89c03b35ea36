// Sums that wrap where they are integers: what authors get when a sum has more digits than its dtype, and what
// C++ leaves undefined for integers with a sign. A sum of bools is whether any is true. Used by kernels of the CPU that add elements of any dtype.
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
