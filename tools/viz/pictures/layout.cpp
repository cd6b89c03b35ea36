#include "tools/viz/pictures/layout.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis::viz {
namespace {

constexpr size_t kManyBoxes = 200;  // beyond this, a person should be told that `dot` takes a while

// Returns the command line of `dot`. Without a limit on the optimization of a layout, 460 boxes take minutes and
// 2,500 boxes take hours. With these limits they take seconds and a minute.
std::vector<std::string> command_of(const LayoutOptions& options) {
  std::vector<std::string> words = {"dot", "-T" + options.format};
  if (options.boxes <= kManyBoxes) return words;
  const double rounds = std::min(1.0, 400.0 / static_cast<double>(options.boxes));  // iterations per box
  for (const std::string& flag : {fmt::format("-Gnslimit={:.3f}", rounds),
                                  fmt::format("-Gnslimit1={:.3f}", rounds), std::string("-Gmclimit=0.2")})
    words.push_back(flag);
  return words;
}

// A temporary file without a name, which disappears when closed.
class Scratch {
 public:
  explicit Scratch(const std::string& text = "") : file_(std::tmpfile()) {
    if (!file_) fail("cannot make a temporary file: {}", std::strerror(errno));
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
      fail("cannot write a temporary file: {}", std::strerror(errno));
    std::rewind(file_);
  }
  ~Scratch() { std::fclose(file_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int fd() const { return fileno(file_); }
  std::string read() const {
    std::string text;
    char block[4096];
    std::rewind(file_);
    for (size_t n; (n = std::fread(block, 1, sizeof block, file_)) > 0;) text.append(block, n);
    return text;
  }

 private:
  std::FILE* file_;
};

// Starts `dot` with files instead of pipes, so that neither process can block the other.
pid_t start_dot(const LayoutOptions& options, const Scratch& in, const Scratch& out, const Scratch& errors) {
  std::vector<std::string> command = command_of(options);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) fail("cannot start Graphviz: {}", std::strerror(errno));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the kernel ends `dot` if this tool ends
  dup2(in.fd(), STDIN_FILENO);
  dup2(out.fd(), STDOUT_FILENO);
  dup2(errors.fd(), STDERR_FILENO);
  execvp(words[0], words.data());
  _exit(127);
}

// Waits for the child. Returns false if it was still busy after `seconds` and was killed.
bool wait_for(pid_t child, double seconds, int& status) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Adds a style for dark mode, which inverts the lightness and keeps the hues.
std::string with_dark_colors(std::string svg) {
  const size_t tag = svg.find("<svg "), end = svg.find('>', tag);
  if (tag == std::string::npos || end == std::string::npos) return svg;
  svg.insert(
      end + 1,
      "\n<style>@media (prefers-color-scheme:dark){.graph{filter:invert(.92) hue-rotate(180deg)}}</style>");
  return svg;
}

}  // namespace

std::string lay_out(const std::string& dot, const LayoutOptions& options) {
  if (options.boxes > kManyBoxes)
    log_info("laying out {} boxes with Graphviz, which may take minutes; it is stopped after {:g} s",
             options.boxes, options.seconds);
  const Scratch in(dot), out, errors;
  int status = 0;
  if (!wait_for(start_dot(options, in, out, errors), options.seconds, status))
    fail(
        "Graphviz's `dot` was not done with {} boxes after {:g} s: draw fewer (leave out --no-fold, or take "
        "another --entry), allow more with --layout-seconds, or write a .dot file and lay it out with `sfdp`",
        options.boxes, options.seconds);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    fail("Graphviz's `dot` is not installed: apt-get install graphviz, or write a .dot file");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("Graphviz's `dot` failed: {}", errors.read());
  return options.format == "svg" ? with_dark_colors(out.read()) : out.read();
}

}  // namespace genesis::viz
