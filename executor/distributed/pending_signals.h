// Keeps signals until a program takes them, to pass them on to the ranks that it has started.
#pragma once

#include <array>
#include <csignal>

namespace genesis {

// Records Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGUSR1 instead of letting them end the process. A signal that is ignored (nohup)
// stays ignored. Only one object may exist at a time.
class PendingSignals {
 public:
  // A terminal sends Ctrl-C and the like to all processes in its foreground. kReachRanks: the ranks are among them, so these
  // signals are not recorded. kReachThisOnly: only this process gets them, and they are recorded as those from other processes
  // are.
  enum class TerminalSignals { kReachRanks, kReachThisOnly };

  explicit PendingSignals(TerminalSignals terminal_signals);
  ~PendingSignals();
  PendingSignals(const PendingSignals&) = delete;
  PendingSignals& operator=(const PendingSignals&) = delete;

  // Removes a pending signal and returns its number, or 0 if none is pending. A signal that arrives twice before it is taken
  // counts once.
  int take();

 private:
  std::array<struct sigaction, 4> before_;  // the actions that the destructor restores
};

// Blocks SIGINT, SIGTERM and SIGHUP for the program that the calling process becomes by exec. SIGUSR1 stays open: mpirun passes
// it on.
void block_recorded_signals();

}  // namespace genesis
