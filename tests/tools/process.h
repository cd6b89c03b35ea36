// Runs a program as a user's shell would and keeps all that it says. Used by the tests of the tools; a
// program that hangs is ended and the test sees it: by SIGTERM first, after which mpirun ends its ranks, even those that are
// stopped. The same happens to it when the test itself is killed. Of what it leaves behind nobody is waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sanitized.h"

namespace genesis::testing {

struct Process {
  int code = -1;  // exit status; 128 + signal when a signal ended it, as a shell says it
  std::string out, err;
  bool timed_out = false;
};

struct ProcessOptions {
  double timeout_seconds = 60 * testing::kSlower;
  std::optional<double> kill_after_seconds;  // send `signal` then, if it still runs
  std::string kill_once_it_says = {};        // the same as soon as this stands in what it wrote to stderr
  int signal = 9;
  std::optional<uint64_t> largest_file_bytes;  // writing more fails, as on a full disk
  std::vector<std::string> environment;        // NAME=VALUE, added to this process's own
};

// `command[0]` is looked up in PATH when it holds no slash.
Process run_process(const std::vector<std::string>& command, const ProcessOptions& options = {});

}  // namespace genesis::testing
