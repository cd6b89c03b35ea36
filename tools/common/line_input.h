// Lines of stdin, and Ctrl-C beside them: what a conversation at a terminal or over a pipe needs. Used by `genesis-run chat`.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
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

// A Ctrl-C just ahead of a wait is seen after this.
inline constexpr int kPollMilliseconds = 100;

class LineReader {
 public:
  enum class Event : uint8_t { kLine, kEnd, kInterrupt, kWaiting };
  virtual ~LineReader() = default;
  // Waits for a line, without its line feed, for the end of the input, or for a Ctrl-C, which leaves in `line` the text that it
  // discarded. Bytes that are not UTF-8 become U+FFFD. Throws Error for a line of more than 16 MiB. A reader that
  // `returns_often` says kWaiting after a second, so that its caller can tell others that it still waits.
  virtual Event next(const InterruptCount& interrupts, const std::string& prompt, std::string& line,
                     bool returns_often) = 0;
  // Keeps a message for the keys that bring earlier ones back.
  virtual void remember(const std::string& /*message*/) {}
};

// Reads a pipe, or a terminal whose lines the kernel edits.
class LineInput : public LineReader {
 public:
  // Throws Error also where the kernel may have cut a line, which it does at 4,095 bytes.
  Event next(const InterruptCount& interrupts, const std::string& prompt, std::string& line,
             bool returns_often) override;

 private:
  bool take_line(std::string& line);

  std::string waiting_;
  bool at_end_ = false, was_waiting_ = false;
};

}  // namespace genesis::tools
