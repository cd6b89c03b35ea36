// A table of the temporary files and folders being written, so that the signal handler of the tools can remove them when a signal
// ends the process: a temporary file can be as large as the whole model.
#pragma once

#include <filesystem>

namespace genesis {

// Registers one temporary file, or folder of plain files, while it lives. If the table is full or the path is too long, nothing
// is registered; then the next writer of the same name removes the leftover.
class RegisteredTemporary {
 public:
  RegisteredTemporary() = default;
  ~RegisteredTemporary() { unregister(); }
  RegisteredTemporary(const RegisteredTemporary&) = delete;
  RegisteredTemporary& operator=(const RegisteredTemporary&) = delete;

  void set(const std::filesystem::path& path);  // replaces the registered path
  void unregister();

 private:
  int slot_ = -1;
};

// Removes everything that this process has registered. Async-signal-safe: for a handler that ends the process.
void remove_registered_temporaries() noexcept;

}  // namespace genesis
