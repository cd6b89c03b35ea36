#include "executor/runtime/aligned_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "schema/core/error.h"
#include "schema/messages/human_bytes.h"

namespace genesis {

void UnmapMemory::operator()(std::byte* p) const { munmap(p, bytes); }

AlignedMemory allocate_memory(int64_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  size_t size = static_cast<size_t>(bytes > 0 ? bytes : 1);
  if (size >= kHugePage) size = (size + kHugePage - 1) / kHugePage * kHugePage;
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    fail("cannot allocate {} of memory: {}", human_bytes(bytes), std::strerror(errno));
  if (size >= kHugePage) madvise(memory, size, MADV_HUGEPAGE);  // fewer TLB misses; the system may ignore it
  return AlignedMemory(static_cast<std::byte*>(memory), UnmapMemory{size});
}

}  // namespace genesis
