// What is being written under a temporary name, noted so that a process which a signal ends can remove it: such a file is as
// large as the whole one. Used by atomic_write.cpp and atomic_folder.cpp, and by the handler that the tools install.
#pragma once

#include <filesystem>

namespace genesis {

// One temporary file, or folder of plain files, for as long as it lives. Where the table is full or the path is too long nothing
// is noted, and the next writer of the same name removes what is left.
class NotedTemporary {
 public:
  NotedTemporary() = default;
  ~NotedTemporary() { forget(); }
  NotedTemporary(const NotedTemporary&) = delete;
  NotedTemporary& operator=(const NotedTemporary&) = delete;

  void note(const std::filesystem::path& path);  // instead of what was noted
  void forget();

 private:
  int slot_ = -1;
};

// Removes everything that this process has noted. Async-signal-safe: for a handler that ends the process.
void remove_noted_temporaries() noexcept;

}  // namespace genesis
