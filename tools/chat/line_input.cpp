#include "tools/chat/line_input.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iostream>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::tools {
namespace {

constexpr size_t kMaxLine = size_t{16} << 20;  // bytes
constexpr size_t kLongestOfKernel = 4095;      // bytes of a line that a terminal driver edits

constexpr std::array kSignals = {SIGINT, SIGUSR1};
volatile std::sig_atomic_t interrupts = 0;

}  // namespace

InterruptCount::InterruptCount() {
  interrupts = 0;
  struct sigaction listen {};
  listen.sa_handler = [](int) { interrupts = interrupts + 1; };
  listen.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &listen, &before_[i]);
}

InterruptCount::~InterruptCount() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int InterruptCount::count() const { return interrupts; }

void InterruptCount::reset() { interrupts = 0; }

LineReader::Event LineInput::next(const InterruptCount& count, const std::string& prompt, std::string& line,
                                  bool returns_often) {
  const int before = count.count();
  int polls = 0;
  line.clear();
  if (!was_waiting_) std::cerr << prompt << std::flush;
  was_waiting_ = false;
  while (!take_line(line)) {
    if (at_end_) return Event::kEnd;
    if (count.count() != before) return Event::kInterrupt;
    was_waiting_ = returns_often && ++polls * kPollMilliseconds > 1000;
    if (was_waiting_) return Event::kWaiting;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, kPollMilliseconds) <= 0) continue;
    std::array<char, 1 << 16> bytes;
    const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    at_end_ = got <= 0;
    if (got > 0) waiting_.append(bytes.data(), static_cast<size_t>(got));
    if (waiting_.size() > kMaxLine) fail("a line of the input has more than {} bytes", kMaxLine);
  }
  return Event::kLine;
}

// Moves the next line to `line`, if one is complete. The last line of the input needs no line feed.
bool LineInput::take_line(std::string& line) {
  const size_t end = waiting_.find('\n');
  if (end == std::string::npos && (!at_end_ || waiting_.empty())) return false;
  const std::string bytes = waiting_.substr(0, end);
  waiting_.erase(0, end == std::string::npos ? end : end + 1);
  if (bytes.size() == kLongestOfKernel && isatty(STDIN_FILENO))
    fail(
        "the terminal cuts a line at {} bytes, and this one has as many: put the text into a file, and name "
        "it "
        "with /load",
        kLongestOfKernel);
  line = utf8::repaired(bytes);
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace genesis::tools
