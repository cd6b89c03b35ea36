#include "executor/runtime/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "executor/runtime/aligned_memory.h"
#include "schema/core/error.h"
#include "schema/messages/human_bytes.h"

namespace genesis {
namespace {

// Returns the number after `key` in a file with lines "key number ...", or the first number if `key` is empty. Returns nothing if
// there is no such file, line or number ("max").
std::optional<int64_t> number_in(const char* path, const std::string& key) {
  std::ifstream in(path);
  int64_t number = 0;
  if (key.empty()) return in >> number ? std::optional(number) : std::nullopt;
  for (std::string word, rest; in >> word; std::getline(in, rest))
    if (word == key) return in >> number ? std::optional(number) : std::nullopt;
  return std::nullopt;
}

// Returns the memory limit of a container minus its usage; cached files do not count as used, since they can be evicted.
std::optional<int64_t> free_in(const char* limit, const char* usage, const char* statistics,
                               const char* cached) {
  const auto most = number_in(limit, ""), held = number_in(usage, "");
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // older systems write a number near 2^63 for none
  if (!most || *most >= kNoLimit || !held) return std::nullopt;
  const int64_t taken = std::max<int64_t>(0, *held - number_in(statistics, cached).value_or(0));
  return std::max<int64_t>(0, *most - taken);
}

// Returns the limit on address space minus what is mapped.
std::optional<int64_t> free_address_space() {
  struct rlimit limit;
  const auto pages = number_in("/proc/self/statm", "");
  if (!pages || ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, int64_t{1} << 60));
  return std::max<int64_t>(0, most - *pages * ::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::optional<int64_t> free_host_bytes() {
  const auto available = number_in("/proc/meminfo", "MemAvailable:");
  if (!available) return std::nullopt;
  int64_t free = (*available + number_in("/proc/meminfo", "SwapFree:").value_or(0)) * 1024;
  for (const auto& container :
       {free_in("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
                "file"),
        free_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                "/sys/fs/cgroup/memory/memory.stat", "total_cache")})
    if (container) free = std::min(free, *container);
  return std::min(free, free_address_space().value_or(free));
}

void check_host_has(int64_t bytes, std::string_view what) {
  const auto free = free_host_bytes();
  if (free && bytes > *free)
    fail("{} takes {} of memory, and this machine has {} left: use smaller sizes", what, human_bytes(bytes),
         human_bytes(*free));
}

std::shared_ptr<std::byte> try_allocate_touched(int64_t bytes, int64_t more) {
  const int64_t needed = bytes + more;
  const auto free = free_host_bytes();
  if (free && needed + needed / 4 > *free) return nullptr;  // leaves a reserve for other allocations
  AlignedMemory memory = allocate_memory(bytes);
  std::memset(memory.get(), 0, static_cast<size_t>(bytes));
  const UnmapMemory unmap = memory.get_deleter();
  return {memory.release(), unmap};
}

}  // namespace genesis
