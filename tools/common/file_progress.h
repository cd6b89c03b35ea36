// Shows progress on stderr while gigabytes are generated, read or written: a line updated in place on a terminal, a
// line every five seconds elsewhere, and nothing for work that is done in a moment.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "schema/messages/progress.h"

namespace genesis::tools {

class FileProgress {
 public:
  // `repeats`: a thread shows the last text again with the time elapsed. It is for work that reports nothing for a
  // minute, such as Graphviz laying out a large graph.
  explicit FileProgress(bool quiet, bool repeats = false);
  ~FileProgress();  // removes its line from the terminal
  FileProgress(const FileProgress&) = delete;
  FileProgress& operator=(const FileProgress&) = delete;

  void update(std::string_view what, uint64_t done = 0, uint64_t total = 0);
  OnProgress hook();  // calls update() while this object exists; empty if quiet

 private:
  using Clock = std::chrono::steady_clock;
  void show();  // needs the mutex
  void repeat();

  const bool quiet_, terminal_;
  const Clock::time_point start_;
  std::mutex mutex_;        // guards everything below
  Clock::time_point next_;  // nothing is shown before this time
  std::string phase_;
  uint64_t done_ = 0, total_ = 0;
  Clock::time_point phase_start_;
  bool open_ = false, is_over_ = false;
  std::condition_variable ends_;
  std::thread thread_;  // runs repeat()
};

// Returns "writing: 3.20 GiB of 14.19 GiB, 22% in 9s, ETA 31s".
std::string progress_text(std::string_view what, uint64_t done, uint64_t total, double seconds);

}  // namespace genesis::tools
