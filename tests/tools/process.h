// Runs a program like a user's shell and keeps its output. A program that hangs is ended, and the test sees it: first
// by SIGTERM, after which mpirun ends its ranks, even stopped ones. The program is also ended if the test itself is
// killed. Processes that it leaves behind are not waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sanitized.h"

namespace genesis::testing {

struct Process {
  int code = -1;  // exit status; 128 + signal if a signal ended it, as in a shell
  std::string out, err;
  bool timed_out = false;
};

struct ProcessOptions {
  double timeout_seconds = testing::kHangs;
  std::string kill_once_it_says = {};  // sends `signal` as soon as stderr contains this text
  // Sends `signal` as soon as this returns true. It is asked every few milliseconds.
  std::function<bool()> kill_once = {};
  int signal = 9;
  std::optional<uint64_t> largest_file_bytes;  // writing more fails, as on a full disk
  std::vector<std::string> environment;        // NAME=VALUE, added to this process's own
};

// `command[0]` is searched in PATH if it has no slash.
Process run_process(const std::vector<std::string>& command, const ProcessOptions& options = {});

}  // namespace genesis::testing
