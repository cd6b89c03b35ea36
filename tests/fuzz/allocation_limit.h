// A bound on what `new` may hold at once, so that a test sees memory grow beyond reason before the machine
// does. Linking allocation_limit.cpp replaces operator new; sanitizer builds keep their own, without a bound.
#pragma once

#include <cstddef>

namespace genesis::testing {

class AllocationLimit {
 public:
  explicit AllocationLimit(size_t bytes);  // more than is held now; beyond it `new` throws std::bad_alloc
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
};

}  // namespace genesis::testing
