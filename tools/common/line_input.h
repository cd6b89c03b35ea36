// Lines of stdin, and Ctrl-C beside them: what a conversation at a terminal or over a pipe needs. Used by `genesis-run chat`.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace genesis::tools {

// Counts Ctrl-C (SIGINT; SIGUSR1 where a launcher of ranks passes it on) as long as it lives, instead of ending the process.
class InterruptCount {
 public:
  InterruptCount();
  ~InterruptCount();
  InterruptCount(const InterruptCount&) = delete;
  InterruptCount& operator=(const InterruptCount&) = delete;

  int count() const;
  void reset();

 private:
  std::array<struct sigaction, 2> before_{};
};

class LineInput {
 public:
  enum class Event { kLine, kEnd, kInterrupt, kWaiting };
  // Waits for a line, without its line feed, for the end of the input, or for a Ctrl-C. Bytes that are not UTF-8 become
  // U+FFFD. Throws Error for a line of more than 16 MiB. Where it `returns_often`, it says kWaiting after a second, for who
  // has others to tell that it still waits.
  Event next(const InterruptCount& interrupts, std::string& line, bool returns_often = false);

 private:
  bool take_line(std::string& line);

  std::string waiting_;
  bool at_end_ = false;
};

}  // namespace genesis::tools
