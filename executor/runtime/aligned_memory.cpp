#include "executor/runtime/aligned_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "schema/core/error.h"
#include "schema/messages/human_bytes.h"

namespace genesis {
namespace {

struct PageRange {
  std::byte *begin = nullptr, *end = nullptr;  // begin >= end: no whole page
  size_t bytes() const { return begin < end ? static_cast<size_t>(end - begin) : 0; }
};

std::byte* rounded(const std::byte* at, int64_t more) {
  const auto page = static_cast<uintptr_t>(memory_page_bytes());
  return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(more)) /
                                      page * page);
}

}  // namespace

int64_t memory_page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

void clear_pages(std::byte* from, int64_t bytes) {
  std::byte* end = from + bytes;
  const PageRange whole = {rounded(from, memory_page_bytes() - 1), rounded(end, 0)};
  const bool is_given_back = whole.bytes() > 0 && madvise(whole.begin, whole.bytes(), MADV_DONTNEED) == 0;
  if (!is_given_back) {
    std::memset(from, 0, static_cast<size_t>(bytes));
    return;
  }
  std::memset(from, 0, static_cast<size_t>(whole.begin - from));
  std::memset(whole.end, 0, static_cast<size_t>(end - whole.end));
}

void use_small_pages(std::byte* from, int64_t bytes) {
  const PageRange touched = {rounded(from, 0), rounded(from + bytes, memory_page_bytes() - 1)};
  madvise(touched.begin, touched.bytes(), MADV_NOHUGEPAGE);  // a hint, which an older system does not know
}

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
