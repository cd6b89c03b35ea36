// Reads lines of stdin and counts Ctrl-C, for a conversation at a terminal or over a pipe.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

namespace genesis::tools {

// While it exists, it counts Ctrl-C instead of letting it end the process: SIGINT, and SIGUSR1, which a launcher of
// ranks may send in its place.
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

// A Ctrl-C that arrives just before a wait is noticed after this time.
inline constexpr int kPollMilliseconds = 100;

class LineReader {
 public:
  enum class Event : uint8_t { kLine, kEnd, kInterrupt, kWaiting };
  virtual ~LineReader() = default;
  // Waits for a line (returned without its line feed), for the end of the input, or for a Ctrl-C, which leaves in
  // `line` the text that it discarded. Bytes that are not UTF-8 become U+FFFD. Throws Error for a line of more than
  // 16 MiB. If `returns_often`, returns kWaiting after a second, so that the caller can tell other ranks that it
  // still waits.
  virtual Event next(const InterruptCount& interrupts, const std::string& prompt, std::string& line,
                     bool returns_often) = 0;
  // Adds a message to the history that the cursor keys recall.
  virtual void remember(const std::string& /*message*/) {}
};

// Reads a pipe, or a terminal whose lines the kernel edits.
class LineInput : public LineReader {
 public:
  // Also throws Error if the kernel may have cut the line, which it does at 4,095 bytes.
  Event next(const InterruptCount& interrupts, const std::string& prompt, std::string& line,
             bool returns_often) override;

 private:
  bool take_line(std::string& line);

  std::string waiting_;
  bool at_end_ = false, was_waiting_ = false;
};

}  // namespace genesis::tools
