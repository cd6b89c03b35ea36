// Bounds the memory that `new` may hold at once, so that a test detects unlimited growth before the machine suffers.
// Linking allocation_limit.cpp replaces operator new. Sanitizer builds keep their own without a bound.
#pragma once

#include <cstddef>

namespace genesis::testing {

class AllocationLimit {
 public:
  // `bytes`: more than are held now. Beyond it, `new` throws std::bad_alloc.
  explicit AllocationLimit(size_t bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

}  // namespace genesis::testing
