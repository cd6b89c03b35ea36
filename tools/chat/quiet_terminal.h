// The mode of the terminal between two prompts of a line editor. Used by tools/chat/line_editor.cpp.
#pragma once

#include <termios.h>

#include <array>
#include <csignal>

namespace genesis::tools {

// Ends bracketed paste and colors.
inline constexpr const char* kPlainAgain = "\x1b[?2004l\x1b[0m";

// While it lives, the terminal at stdin keeps what is typed, without a limit and unseen, for the next read; Ctrl-C and Ctrl-Z
// work. A signal that ends the process first brings back the mode from before. One object at a time.
class QuietTerminal {
 public:
  // `writes_codes`: whether the terminal understands kPlainAgain, which is written to stderr ahead of such an end.
  explicit QuietTerminal(bool writes_codes);
  ~QuietTerminal();
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

  void resume();  // after something else has changed the mode

 private:
  static constexpr std::array kSignals = {SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace genesis::tools
