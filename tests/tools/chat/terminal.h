// A program on a terminal of its own, as a user sits before it. Used by the tests of `genesis-run chat`.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/sanitized.h"

namespace genesis::testing {

class Terminal {
 public:
  // `environment`: NAME=VALUE, added to this process's own; NAME= removes one.
  Terminal(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  ~Terminal();  // ends the program where it still runs
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);
  // Waits until this text has come behind what earlier calls waited for, and returns everything up to it; a test fails where it
  // does not come in time.
  std::string wait_for(const std::string& text);
  // Waits for the end of the program, which is its exit status, or 128 + signal.
  int wait();
  const std::string& seen() const { return seen_; }  // all that the program has written

 private:
  bool read_some(double seconds);

  pid_t child_ = -1;
  int fd_ = -1;
  std::string seen_;
  size_t waited_ = 0;
};

}  // namespace genesis::testing
