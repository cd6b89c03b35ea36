// Records signals, for a program that passes them on to the ranks it has started.
#pragma once

#include <array>
#include <csignal>

namespace genesis {

// Records Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGUSR1 instead of letting them end the process. A signal that is ignored (nohup)
// stays ignored. Only one object may exist at a time.
class NotedSignals {
 public:
  // A terminal sends signals to all processes in its foreground. Tells if the ranks get them this way, or only this process does.
  enum class OfTerminal { kReachRanks, kReachThisAlone };

  explicit NotedSignals(OfTerminal of_terminal);
  ~NotedSignals();
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;

  int take();  // a signal that has arrived since the last call; 0: none

 private:
  std::array<struct sigaction, 4> before_;
};

// Blocks SIGINT, SIGTERM and SIGHUP for the program that the calling process becomes by exec. SIGUSR1 stays open: mpirun passes
// it on.
void block_noted_signals();

}  // namespace genesis
