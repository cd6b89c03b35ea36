#include "executor/distributed/noted_signals.h"

#include <utility>

namespace genesis {
namespace {

constexpr std::array kNoted = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
volatile std::sig_atomic_t noted[kNoted.size()];

void note(int number, siginfo_t*, void*) {
  for (size_t i = 0; i < kNoted.size(); ++i)
    if (kNoted[i] == number) noted[i] = 1;
}

void note_those_of_processes(int number, siginfo_t* info, void* context) {
  if (info->si_code != SI_KERNEL) note(number, info, context);
}

}  // namespace

NotedSignals::NotedSignals(OfTerminal of_terminal) {
  struct sigaction listen {};
  listen.sa_sigaction = of_terminal == OfTerminal::kReachRanks ? note_those_of_processes : note;
  listen.sa_flags = SA_RESTART | SA_SIGINFO;
  for (size_t i = 0; i < kNoted.size(); ++i) {
    noted[i] = 0;
    sigaction(kNoted[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kNoted[i], &listen, nullptr);
  }
}

NotedSignals::~NotedSignals() {
  for (size_t i = 0; i < kNoted.size(); ++i) sigaction(kNoted[i], &before_[i], nullptr);
}

int NotedSignals::take() {
  for (size_t i = 0; i < kNoted.size(); ++i)
    if (std::exchange(noted[i], 0)) return kNoted[i];
  return 0;
}

void block_noted_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kNoted)
    if (number != SIGUSR1) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace genesis
