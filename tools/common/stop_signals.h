// Signals that ask a long run to stop: Ctrl-C (SIGINT), a shutdown (SIGTERM), a terminal that goes (SIGHUP), a launcher of ranks
// or a scheduler ahead of a time limit (SIGUSR1), or whoever read the output going (SIGPIPE). The first is noted, for the run to
// end in order and keep its work; a second SIGINT, SIGTERM or SIGUSR1 ends the process at once. Used by `genesis-run train`.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <string>

namespace genesis::tools {

// Listens as long as it lives. SIGHUP stays ignored where it was (nohup).
class StopSignals {
 public:
  // `answers`: whether a signal that someone waits behind is answered with a line on stderr. Of several ranks one does.
  explicit StopSignals(bool answers);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int received() const;  // 0: none

 private:
  std::array<struct sigaction, 5> before_;
};

std::string signal_name(int number);  // "SIGINT"

// Why a run should stop: a signal, or the time that it was given is over.
struct StopVote {
  int signal = 0;  // 0: none
  bool time_up = false;
  bool stops() const { return signal != 0 || time_up; }
};

// Whether the wall clock is used up, or someone asked to stop (Ctrl-C, a shutdown).
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
