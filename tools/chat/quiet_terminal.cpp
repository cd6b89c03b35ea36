#include "tools/chat/quiet_terminal.h"

#include <unistd.h>

#include <cstring>

namespace genesis::tools {
namespace {

termios mode_before;
std::array<struct sigaction, NSIG> actions_before;
volatile std::sig_atomic_t ends_codes = 0;

// Signal handler: restores the terminal, then raises the signal again. It calls only write, tcsetattr, sigaction and
// raise, which are safe in a handler.
void end_with_mode_restored(int number) {
  if (ends_codes && write(STDERR_FILENO, kPlainAgain, std::strlen(kPlainAgain)) < 0) ends_codes = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode_before);
  sigaction(number, &actions_before.at(static_cast<size_t>(number)), nullptr);
  ::raise(number);
}

}  // namespace

QuietTerminal::QuietTerminal(bool writes_codes) {
  ends_codes = writes_codes;
  tcgetattr(STDIN_FILENO, &mode_before);
  struct sigaction restore {};
  restore.sa_handler = end_with_mode_restored;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    actions_before.at(static_cast<size_t>(kSignals[i])) = before_[i];
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &restore, nullptr);
  }
  resume();
}

QuietTerminal::~QuietTerminal() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &mode_before);
}

void QuietTerminal::resume() {
  termios quiet = mode_before;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  quiet.c_cc[VMIN] = 1;
  quiet.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
}

}  // namespace genesis::tools
