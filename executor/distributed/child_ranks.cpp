#include "executor/distributed/child_ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <utility>

#include "executor/distributed/pending_signals.h"
#include "schema/core/error.h"

namespace genesis {
namespace {

using Clock = std::chrono::steady_clock;

// Returns a free port of the loopback address. Rank 0 will listen there until all ranks have connected.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  const bool found =
      socket >= 0 && ::bind(socket, general, length) == 0 && ::getsockname(socket, general, &length) == 0;
  const int error = errno;
  if (socket >= 0) ::close(socket);
  if (!found) fail("no port of the loopback address could be had: {}", std::strerror(error));
  return ntohs(address.sin_port);
}

// Runs in the child process and turns it into the rank: it ends when its parent does, its standard input and output are closed
// unless it is rank 0, and it gets the given arguments and environment.
[[noreturn]] void become_rank(int rank, std::vector<char*>& arguments, std::vector<char*>& environment,
                              pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  if (const int nowhere = rank == 0 ? -1 : ::open("/dev/null", O_RDWR); nowhere >= 0) {
    ::dup2(nowhere, STDIN_FILENO);
    ::dup2(nowhere, STDOUT_FILENO);
  }
  ::execve(arguments[0], arguments.data(), environment.data());
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(int rank, int ranks, int port) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
  for (const auto& variable : {fmt::format("RANK={}", rank), fmt::format("LOCAL_RANK={}", rank),
                               fmt::format("WORLD_SIZE={}", ranks), fmt::format("LOCAL_WORLD_SIZE={}", ranks),
                               std::string("MASTER_ADDR=127.0.0.1"), fmt::format("MASTER_PORT={}", port)}) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(variables, [&](const std::string& other) { return other.rfind(name, 0) == 0; });
    variables.push_back(variable);
  }
  return variables;
}

class Children {
 public:
  Children(int ranks, std::vector<std::string> command)
      : command_(std::move(command)), pids_(static_cast<size_t>(ranks)), stopped_at_(pids_.size()) {
    const int port = free_port();
    for (int rank = 0; rank < ranks; ++rank) start(rank, port);
  }
  // No rank may outlive this object, even if the parent leaves by an exception.
  ~Children() { signal_all(SIGKILL); }

  int wait() {
    while (std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; })) {
      reap();
      while (const int number = signals_.take()) signal_all(number);
      end_stopped();
      if (status_ != 0) hurry();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return status_;
  }

 private:
  void start(int rank, int port) {
    std::vector<std::string> variables = environment_of(rank, static_cast<int>(pids_.size()), port);
    std::vector<char*> environment = pointers(variables), arguments = pointers(command_);
    const pid_t parent = ::getpid(), pid = ::fork();
    if (pid < 0) fail("cannot start rank {}: {}", rank, std::strerror(errno));
    if (pid == 0) become_rank(rank, arguments, environment, parent);
    pids_[static_cast<size_t>(rank)] = pid;
  }

  void reap() {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] <= 0 ||
          ::waitpid(pids_[rank], &status, WNOHANG | WUNTRACED | WCONTINUED) != pids_[rank])
        continue;
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
        stopped_at_[rank] = WIFSTOPPED(status) ? Clock::now() : Clock::time_point();
        continue;
      }
      pids_[rank] = 0;
      const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (code != 0 && status_ == 0) {
        status_ = code;
        failed_at_ = Clock::now();
      }
      if (WIFSIGNALED(status) && killed_with_ == 0)
        std::cerr << fmt::format("rank {} was ended by signal {}; the others end too\n", rank,
                                 WTERMSIG(status));
    }
  }

  // Kills a rank that has been stopped (SIGSTOP) for too long, since all others wait for it. If all ranks are stopped, the user
  // has stopped the run, and they are left alone.
  void end_stopped() {
    constexpr std::chrono::seconds kPatience{8};
    std::vector<size_t> stopped;
    for (size_t rank = 0; rank < pids_.size(); ++rank)
      if (pids_[rank] > 0 && stopped_at_[rank] != Clock::time_point()) stopped.push_back(rank);
    if (stopped.size() == pids_.size()) return;
    for (const size_t rank : stopped) {
      if (Clock::now() - stopped_at_[rank] < kPatience) continue;
      std::cerr << fmt::format("rank {} has been stopped for {} s; it is ended\n", rank, kPatience.count());
      ::kill(pids_[rank], SIGKILL);
      stopped_at_[rank] = Clock::time_point();
    }
  }

  // After a failure the other ranks have some seconds to exit on their own; then they get SIGTERM, then SIGKILL.
  void hurry() {
    constexpr int kSecondsToTerminate = 5;
    const auto passed = Clock::now() - failed_at_;
    const int number = passed > std::chrono::seconds(kGraceSeconds + kSecondsToTerminate) ? SIGKILL
                       : passed > std::chrono::seconds(kGraceSeconds)                     ? SIGTERM
                                                                                          : 0;
    if (number == killed_with_) return;
    killed_with_ = number;
    signal_all(number);
  }

  void signal_all(int number) {
    for (const pid_t pid : pids_)
      if (pid > 0) ::kill(pid, number);
  }

  PendingSignals signals_{PendingSignals::TerminalSignals::kReachRanks};  // set up before any rank is started
  std::vector<std::string> command_;
  std::vector<pid_t> pids_;  // 0: not started, or ended
  std::vector<Clock::time_point>
      stopped_at_;  // by rank: since when it is stopped; the clock's epoch: it runs
  int status_ = 0, killed_with_ = 0;
  Clock::time_point failed_at_;
};

}  // namespace

int run_child_ranks(int ranks, const std::vector<std::string>& command) {
  return Children(ranks, command).wait();
}

}  // namespace genesis
