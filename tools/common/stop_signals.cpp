#include "tools/common/stop_signals.h"

#include <unistd.h>

#include <cstring>
#include <ctime>

namespace genesis::tools {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE};

volatile std::sig_atomic_t first_signal = 0;

volatile double first_at = 0;

volatile bool answers_signals = false;

bool is_impatience(int number) { return number == SIGINT || number == SIGTERM || number == SIGUSR1; }

double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Notes the first signal and ends the process at a second one. SIGHUP and SIGPIPE do not count as a second signal: a
// closing terminal may send SIGHUP twice, and every line written to a closed pipe causes a SIGPIPE. A signal right
// after the first does not count either: ending a process group reaches a rank both directly and through its
// launcher.
void on_signal(int number) {
  constexpr double kAtOnce = 0.5;  // seconds
  if (first_signal != 0) {
    if (is_impatience(number) && seconds_now() - first_at > kAtOnce) _exit(128 + number);
    return;
  }
  first_at = seconds_now();
  first_signal = number;
  if (!answers_signals || !is_impatience(number)) return;
  constexpr char kText[] = "\ngenesis-run: stopping after this step; a second signal ends at once\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace

StopSignals::StopSignals(bool answers) {
  first_signal = 0;
  answers_signals = answers;
  struct sigaction listen {};
  listen.sa_handler = on_signal;
  listen.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &listen, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopSignals::received() const { return first_signal; }

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name ? std::string("SIG") + name : "signal " + std::to_string(number);
}

}  // namespace genesis::tools
