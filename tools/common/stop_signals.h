// Signals that ask a long run to stop: Ctrl-C (SIGINT), a shutdown (SIGTERM), a closing terminal (SIGHUP), a launcher
// of ranks or a scheduler before a time limit (SIGUSR1), or a closed output pipe (SIGPIPE). The first signal is
// noted, so that the run can end in order and keep its work. A second SIGINT, SIGTERM or SIGUSR1 ends the process at
// once.
#pragma once

#include <array>
#include <chrono>
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

// The reason why a run should stop: a signal, or its time is up.
struct StopVote {
  int signal = 0;  // 0: none
  bool time_up = false;
  bool stops() const { return signal != 0 || time_up; }
};

// Votes for stopping once the wall-clock limit is reached or a signal has asked for it.
class StopWhen {
 public:
  StopWhen(double minutes, const StopSignals& signals)
      : minutes_(minutes), signals_(signals), start_(std::chrono::steady_clock::now()) {}
  StopVote vote() const {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    return {signals_.received(), minutes_ > 0 && elapsed >= minutes_ * 60};
  }

 private:
  double minutes_;
  const StopSignals& signals_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace genesis::tools
