#include "tests/tools/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace genesis::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read_end, write_end;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
};

[[noreturn]] void become(const std::vector<std::string>& command, const ProcessOptions& options,
                         const Pipe& out, const Pipe& err, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  signal(SIGHUP, SIG_DFL);  // nohup may have changed it
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out.write_end, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  if (options.largest_file_bytes) {
    const rlimit limit{*options.largest_file_bytes, *options.largest_file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const std::string& variable : options.environment) putenv(const_cast<char*>(variable.c_str()));
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// Reads what has arrived; returns false at the end.
bool drain(int fd, std::string& text) {
  char block[65536];
  const ssize_t count = read(fd, block, sizeof block);
  if (count > 0) text.append(block, static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

// kToEnd: seconds after the time limit for the child to end by itself; kToRead: seconds in which its output may still
// arrive.
constexpr double kToEnd = kHangs / 2, kToRead = 5;

class Watch {
 public:
  Watch(pid_t child, const ProcessOptions& options)
      : child_(child), options_(options), start_(Clock::now()) {}

  void hear(const std::string& said) {
    const std::string& sign = options_.kill_once_it_says;
    if (!kill_after_ && !sign.empty() && said.find(sign) != said.npos) kill_after_ = elapsed();
  }

  // Ends the child when its time is up. Returns the milliseconds until the next check; -1: none needed.
  int check(Process& process) {
    constexpr int kBetweenQuestions = 5;  // milliseconds
    const bool asks = options_.kill_once && !kill_after_;
    if (asks && options_.kill_once()) kill_after_ = elapsed();
    const double limit = kill_after_.value_or(options_.timeout_seconds);
    const double ends[] = {limit, limit + kToEnd, limit + kToEnd + kToRead};
    const double now = elapsed();
    while (stage_ < std::size(ends) && now >= ends[stage_]) end(process);
    if (stage_ == std::size(ends)) return -1;
    const int left = static_cast<int>((ends[stage_] - now) * 1000) + 1;
    return asks ? std::min(left, kBetweenQuestions) : left;
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void end(Process& process) {
    const bool is_wanted = kill_after_.has_value();
    process.timed_out = process.timed_out || stage_ > 0 || !is_wanted;
    const int number = stage_ > 0 ? SIGKILL : is_wanted ? options_.signal : SIGTERM;
    kill(child_, number);
    ++stage_;
  }

  pid_t child_;
  const ProcessOptions& options_;
  Clock::time_point start_;
  std::optional<double> kill_after_;
  size_t stage_ = 0;
};

void listen(Process& process, int out, int err, Watch& watch) {
  pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const int milliseconds = watch.check(process);
    if (milliseconds < 0) return;
    if (poll(ends, 2, milliseconds) <= 0) continue;
    if (ends[0].revents && !drain(out, process.out)) ends[0].fd = -1;
    if (ends[1].revents && !drain(err, process.err)) ends[1].fd = -1;
    watch.hear(process.err);
  }
}

// Under a thread sanitizer its symbolizer prints a complaint if memory that TBB uses on a stack, which the sanitizer
// ignores, belongs to no file.
void drop_lines_of_symbolizer(std::string& text) {
  constexpr std::string_view kStart = "LLVMSymbolizer: ";
  for (size_t at; (at = text.find(kStart)) != std::string::npos;)
    text.erase(at, std::min(text.find('\n', at), text.size() - 1) + 1 - at);
}

}  // namespace

Process run_process(const std::vector<std::string>& command, const ProcessOptions& options) {
  const Pipe out, err;
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) become(command, options, out, err, parent);
  close(out.write_end);
  close(err.write_end);
  Process process;
  Watch watch(child, options);
  listen(process, out.read_end, err.read_end, watch);
  drop_lines_of_symbolizer(process.err);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  close(out.read_end);
  close(err.read_end);
  process.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return process;
}

}  // namespace genesis::testing
