#include "tools/common/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tools/common/tool.h"

namespace genesis::tools {
namespace {

int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(int64_t first, int64_t total, bool quiet)
    : first_(first),
      total_(total),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO)),
      done_(first),
      start_(Clock::now()) {}

Progress::~Progress() { finish(); }

void Progress::update(int64_t done, const std::string& facts) {
  done_ = done;
  const auto now = Clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
  if (quiet_ || (now - drawn_ < interval && done < total_)) return;
  drawn_ = now;
  draw_bar(facts);
}

void Progress::draw_bar(const std::string& facts) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
  const auto left = static_cast<double>(total_ - done_),
             made = static_cast<double>(std::max<int64_t>(done_ - first_, 1));
  const std::string text =
      fmt::format("{}/{}  {}  ETA {}", done_, total_, facts, human_seconds(elapsed / made * left));
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  const int width = std::clamp(terminal_width() - static_cast<int>(text.size()) - 4, 0, 40);
  const int filled = static_cast<int>(share * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s %s", bar.c_str(), text.c_str());
  std::fflush(stderr);
  open_ = true;
}

void Progress::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace genesis::tools
