// Signals that ask a long run to stop: Ctrl-C (SIGINT), a shutdown (SIGTERM), a closing terminal (SIGHUP), a launcher
// of ranks or a scheduler before a time limit (SIGUSR1), or a closed output pipe (SIGPIPE). The first signal is
// noted, so that the run can end in order and keep its work. A second SIGINT, SIGTERM or SIGUSR1 ends the process at
// once.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace genesis::tools {

// Handles the signals while it exists. SIGHUP stays ignored if it was ignored before (nohup).
class StopSignals {
 public:
  // `answers`: if true, a signal that a person may wait for is answered with a line on stderr. Of several ranks only
  // one does so.
  explicit StopSignals(bool answers);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int received() const;  // the first signal; 0: none

 private:
  std::array<struct sigaction, 5> before_;
};

std::string signal_name(int number);  // "SIGINT"

}  // namespace genesis::tools
