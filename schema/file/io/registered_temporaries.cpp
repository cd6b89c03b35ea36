#include "schema/file/io/registered_temporaries.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>

namespace genesis {
namespace {

enum State : int { kFree, kTaken, kRegistered };

// One registered path. A forked child inherits the table of its parent and must leave the parent's files alone, hence `owner`.
struct Slot {
  std::atomic<int> state{kFree};
  pid_t owner = 0;
  std::array<char, 4096> path{};
};
static_assert(std::atomic<int>::is_always_lock_free);

constinit std::array<Slot, 32> slots;

// Unlinks all files in a folder. It avoids readdir(), which allocates memory; a signal handler must not do that.
void empty_folder(const char* path) noexcept {
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (folder < 0) return;
  alignas(dirent64) char entries[2048];
  for (long count; (count = ::syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
    for (long at = 0; at < count;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      ::unlinkat(folder, entry->d_name, 0);  // fails for folders, and therefore for "." too
      at += entry->d_reclen;
    }
  ::close(folder);
}

}  // namespace

void RegisteredTemporary::set(const std::filesystem::path& path) {
  unregister();
  const std::string& name = path.native();
  for (size_t i = 0; i < slots.size() && name.size() < slots[i].path.size(); ++i) {
    int expected = kFree;
    if (!slots[i].state.compare_exchange_strong(expected, kTaken)) continue;
    std::memcpy(slots[i].path.data(), name.c_str(), name.size() + 1);
    slots[i].owner = ::getpid();
    slots[i].state = kRegistered;
    slot_ = static_cast<int>(i);
    return;
  }
}

void RegisteredTemporary::unregister() {
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].state = kFree;
  slot_ = -1;
}

void remove_registered_temporaries() noexcept {
  for (const Slot& slot : slots) {
    if (slot.state != kRegistered || slot.owner != ::getpid()) continue;
    if (::unlink(slot.path.data()) == 0) continue;
    empty_folder(slot.path.data());
    ::rmdir(slot.path.data());
  }
}

}  // namespace genesis
