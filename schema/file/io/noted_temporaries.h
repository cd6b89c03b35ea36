// A table of the temporary files and folders being written, so that the signal handler of the tools can remove them when a signal
// ends the process: a temporary file can be as large as the whole model.
#pragma once

#include <filesystem>

namespace genesis {

// Notes one temporary file, or folder of plain files, while it lives. If the table is full or the path is too long, nothing is
// noted; then the next writer of the same name removes the leftover.
class NotedTemporary {
 public:
  NotedTemporary() = default;
  ~NotedTemporary() { forget(); }
  NotedTemporary(const NotedTemporary&) = delete;
  NotedTemporary& operator=(const NotedTemporary&) = delete;

  void note(const std::filesystem::path& path);  // replaces the noted path
  void forget();

 private:
  int slot_ = -1;
};

// Removes everything that this process has noted. Async-signal-safe: for a handler that ends the process.
void remove_noted_temporaries() noexcept;

}  // namespace genesis
