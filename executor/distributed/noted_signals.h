// Signals that a program passes on to others. Used by the tool that starts ranks of its own.
#pragma once

#include <array>
#include <csignal>

namespace genesis {

// Ctrl-C (SIGINT), SIGTERM and SIGHUP, noted as they come instead of ending the process, for a program that passes them on to
// ranks. What is ignored (nohup) stays so. One lives at a time.
class NotedSignals {
 public:
  // Whose are those that a terminal sends, to all processes in its foreground: the ranks have them already, or nobody else.
  enum class OfTerminal { kReachRanks, kReachThisAlone };

  explicit NotedSignals(OfTerminal of_terminal);
  ~NotedSignals();
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

  int take();  // one that has come since; 0: none

 private:
  std::array<struct sigaction, 3> before_;
};

// Keeps the same signals from what the calling process becomes by exec.
void block_noted_signals();

}  // namespace genesis
