#include "tools/common/file_progress.h"

#include <unistd.h>

#include <cstdio>

#include "tools/common/printable.h"
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

FileProgress::FileProgress(bool quiet, bool repeats)
    : quiet_(quiet),
      terminal_(isatty(STDERR_FILENO)),
      start_(Clock::now()),
      next_(start_ + first_word(terminal_)),
      phase_start_(start_) {
  if (repeats && !quiet) thread_ = std::thread([this] { repeat(); });
}

FileProgress::~FileProgress() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ends_.notify_one();
    thread_.join();
  }
  if (open_) std::fputs("\r\033[K", stderr);
}

void FileProgress::update(std::string_view what, uint64_t done, uint64_t total) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  if (what != phase_) {
    phase_start_ = phase_.empty() ? start_ : Clock::now();
    phase_ = what;
  }
  done_ = done;
  total_ = total;
  show();
}

void FileProgress::show() {
  const auto now = Clock::now();
  if (phase_.empty() || now < next_) return;
  next_ = now + between_words(terminal_);
  const double seconds = std::chrono::duration<double>(now - phase_start_).count();
  const std::string text = progress_text(printable(phase_), done_, total_, seconds);  // its names come from files
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
  open_ = terminal_;
}

void FileProgress::repeat() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, milliseconds(200), [&] { return is_over_; })) show();
}

OnProgress FileProgress::hook() {
  if (quiet_) return {};
  return [this](std::string_view what, uint64_t done, uint64_t total) { update(what, done, total); };
}

}  // namespace genesis::tools
