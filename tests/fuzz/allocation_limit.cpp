#include "tests/fuzz/allocation_limit.h"

#include <malloc.h>

#include <cstdlib>
#include <limits>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GENESIS_KEEP_OPERATOR_NEW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define GENESIS_KEEP_OPERATOR_NEW 1
#endif
#endif

namespace {

thread_local size_t held = 0;
thread_local size_t limit = std::numeric_limits<size_t>::max();

}  // namespace

#ifndef GENESIS_KEEP_OPERATOR_NEW
void* operator new(size_t bytes) {
  if (bytes > limit || held > limit - bytes) throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  held += malloc_usable_size(memory);
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr) held -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
#endif

namespace genesis::testing {

AllocationLimit::AllocationLimit(size_t bytes) { limit = held + bytes; }
AllocationLimit::~AllocationLimit() { limit = std::numeric_limits<size_t>::max(); }

}  // namespace genesis::testing
