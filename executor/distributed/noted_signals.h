// Signals that a program passes on to others. Used by the tool that starts ranks of its own.
#pragma once

#include <array>
#include <csignal>

namespace genesis {

// Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGUSR1, noted as they come instead of ending the process, for a program that passes them on
// to ranks. A signal that is ignored (nohup) stays ignored. One object lives at a time.
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
  std::array<struct sigaction, 4> before_;
};

// Blocks SIGINT, SIGTERM and SIGHUP in the program that the calling process becomes by exec. SIGUSR1 stays open: mpirun passes it on.
void block_noted_signals();

}  // namespace genesis
