#include "tools/common/file_progress.h"

#include <unistd.h>

#include <cstdio>

#include "tools/common/tool.h"

namespace genesis::tools {
namespace {

using std::chrono::milliseconds;

// Returns the time before the first line. Work that takes less shows none.
milliseconds first_word(bool terminal) { return milliseconds(terminal ? 1000 : 5000); }
milliseconds between_words(bool terminal) { return milliseconds(terminal ? 200 : 5000); }

}  // namespace

std::string progress_text(std::string_view what, uint64_t done, uint64_t total, double seconds) {
  std::string text(what);
  if (done > 0) text += ": " + human_bytes(done);
  if (total > 0) {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    text += fmt::format(" of {}, {:.0f}%", human_bytes(total), 100 * share);
    if (share > 0.01) return text + fmt::format(" in {}, ETA {}", human_seconds(seconds), human_seconds(seconds / share - seconds));
  }
  return seconds < 0.5 ? text : text + " in " + human_seconds(seconds);
}

FileProgress::FileProgress(bool quiet)
    : quiet_(quiet),
      terminal_(isatty(STDERR_FILENO)),
      start_(Clock::now()),
      next_(start_ + first_word(terminal_)),
      phase_start_(start_) {}

FileProgress::~FileProgress() {
  if (open_) std::fputs("\r\033[K", stderr);
}

void FileProgress::update(std::string_view what, uint64_t done, uint64_t total) {
  const auto now = Clock::now();
  if (what != phase_) {
    phase_start_ = phase_.empty() ? start_ : now;
    phase_ = what;
  }
  if (quiet_ || now < next_) return;
  next_ = now + between_words(terminal_);
  const std::string text =
      progress_text(what, done, total, std::chrono::duration<double>(now - phase_start_).count());
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
  open_ = terminal_;
}

OnProgress FileProgress::hook() {
  if (quiet_) return {};
  return [this](std::string_view what, uint64_t done, uint64_t total) { update(what, done, total); };
}

}  // namespace genesis::tools
