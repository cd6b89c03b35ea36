// The mode of the terminal between two prompts of a line editor.
#pragma once

#include <termios.h>

#include <array>
#include <csignal>

namespace genesis::tools {

// Escape codes that end bracketed paste and colors.
inline constexpr const char* kPlainAgain = "\x1b[?2004l\x1b[0m";

// While it exists, the terminal at stdin keeps typed text for the next read, without a length limit and without echo;
// Ctrl-C and Ctrl-Z still work. A signal that ends the process first restores the previous mode. Only one object may
// exist at a time.
class QuietTerminal {
 public:
  // `writes_codes`: true if the terminal understands kPlainAgain, which is written to stderr before such a signal
  // ends the process.
  explicit QuietTerminal(bool writes_codes);
  ~QuietTerminal();
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

  void resume();  // sets the mode again after something else has changed it

 private:
  static constexpr std::array kSignals = {SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace genesis::tools
