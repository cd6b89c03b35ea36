#include "schema/core/take_pages.h"

#include <sys/mman.h>
#include <unistd.h>

namespace genesis {

void take_pages([[maybe_unused]] std::byte* from, [[maybe_unused]] int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr int64_t kMinBytes = 256 << 10;
  if (bytes < kMinBytes) return;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(from), begin = (address + page - 1) / page * page,
             end = (address + static_cast<uintptr_t>(bytes)) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);  // a hint, which may be refused
#endif
}

}  // namespace genesis
