#include "tests/tools/chat/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace genesis::testing {
namespace {

using Clock = std::chrono::steady_clock;
const double kPatience = kHangs;  // seconds

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment) {
  for (const std::string& variable : environment) {
    const size_t equals = variable.find('=');
    if (equals + 1 == variable.size())
      unsetenv(variable.substr(0, equals).c_str());
    else
      setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

}  // namespace

Terminal::Terminal(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const winsize size{24, 80, 0, 0};
  child_ = forkpty(&fd_, nullptr, nullptr, &size);
  if (child_ == 0) become(command, environment);
  fcntl(fd_, F_SETFL, O_NONBLOCK);
}

Terminal::~Terminal() {
  close(fd_);
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

// Also reads while it writes: a program whose output is not read stops reading at some point.
void Terminal::type(const std::string& keys) {
  const Clock::time_point start = Clock::now();
  for (size_t at = 0; at < keys.size() && since(start) < kPatience;) {
    const ssize_t count = write(fd_, keys.data() + at, keys.size() - at);
    if (count > 0) at += static_cast<size_t>(count);
    read_some(count > 0 ? 0 : 0.01);
  }
}

bool Terminal::read_some(double seconds) {
  pollfd end{fd_, POLLIN, 0};
  if (poll(&end, 1, static_cast<int>(seconds * 1000)) <= 0) return true;
  std::array<char, 65536> bytes;
  const ssize_t count = read(fd_, bytes.data(), bytes.size());
  if (count > 0) seen_.append(bytes.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

std::string Terminal::wait_for(const std::string& text) {
  const Clock::time_point start = Clock::now();
  size_t at = std::string::npos;
  while ((at = seen_.find(text, waited_)) == std::string::npos)
    if (!read_some(0.1) || since(start) > kPatience) break;
  if (at == std::string::npos) {
    ADD_FAILURE() << "no '" << text << "' in: " << seen_.substr(waited_);
    return "";
  }
  const std::string before = seen_.substr(waited_, at - waited_);
  waited_ = at + text.size();
  return before;
}

void Terminal::wait_for_more() {
  const Clock::time_point start = Clock::now();
  for (const size_t before = seen_.size(); seen_.size() == before;)
    if (!read_some(0.1) || since(start) > kPatience) return;
}

int Terminal::wait() {
  const Clock::time_point start = Clock::now();
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && since(start) < kPatience) {
    if (!read_some(0.05)) usleep(10000);
    ended = waitpid(child_, &status, WNOHANG);
  }
  if (ended == 0) return -1;
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace genesis::testing
