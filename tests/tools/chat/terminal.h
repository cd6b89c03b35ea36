// Runs a program on a terminal of its own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/sanitized.h"

namespace genesis::testing {

class Terminal {
 public:
  // `environment`: NAME=VALUE, added to this process's own; NAME= removes a variable.
  Terminal(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  ~Terminal();  // ends the program if it is still running
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);
  // Waits until this text appears after the texts of earlier calls, and returns everything up to it. Fails the test
  // if it does not appear in time.
  std::string wait_for(const std::string& text);
  // Waits until the program writes anything more.
  void wait_for_more();
  // Waits for the end of the program. Returns its exit status, or 128 + signal.
  int wait();
  const std::string& seen() const { return seen_; }  // everything the program has written

 private:
  bool read_some(double seconds);

  pid_t child_ = -1;
  int fd_ = -1;
  std::string seen_;
  size_t waited_ = 0;
};

}  // namespace genesis::testing
