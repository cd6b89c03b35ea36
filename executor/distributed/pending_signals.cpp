#include "executor/distributed/pending_signals.h"

#include <utility>

namespace genesis {
namespace {

constexpr std::array kRecorded = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
volatile std::sig_atomic_t pending[kRecorded.size()];

void record(int number, siginfo_t*, void*) {
  for (size_t i = 0; i < kRecorded.size(); ++i)
    if (kRecorded[i] == number) pending[i] = 1;
}

// Ignores signals that the kernel sent, as it does for the keys of a terminal.
void record_if_from_process(int number, siginfo_t* info, void* context) {
  if (info->si_code != SI_KERNEL) record(number, info, context);
}

}  // namespace

PendingSignals::PendingSignals(TerminalSignals terminal_signals) {
  struct sigaction listen {};
  listen.sa_sigaction = terminal_signals == TerminalSignals::kReachRanks ? record_if_from_process : record;
  listen.sa_flags = SA_RESTART | SA_SIGINFO;
  for (size_t i = 0; i < kRecorded.size(); ++i) {
    pending[i] = 0;
    sigaction(kRecorded[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kRecorded[i], &listen, nullptr);
  }
}

PendingSignals::~PendingSignals() {
  for (size_t i = 0; i < kRecorded.size(); ++i) sigaction(kRecorded[i], &before_[i], nullptr);
}

int PendingSignals::take() {
  for (size_t i = 0; i < kRecorded.size(); ++i)
    if (std::exchange(pending[i], 0)) return kRecorded[i];
  return 0;
}

void block_recorded_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kRecorded)
    if (number != SIGUSR1) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace genesis
