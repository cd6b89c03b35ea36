// Shows progress on stderr while gigabytes are generated, read or written: a line updated in place on a terminal, a
// line every five seconds elsewhere, and nothing for work that is done in a moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "schema/messages/progress.h"

namespace genesis::tools {

class FileProgress {
 public:
  explicit FileProgress(bool quiet);
  ~FileProgress();  // removes its line from the terminal
  FileProgress(const FileProgress&) = delete;
  FileProgress& operator=(const FileProgress&) = delete;

  void update(std::string_view what, uint64_t done, uint64_t total);
  OnProgress hook();  // calls update() while this object exists; empty if quiet

 private:
  using Clock = std::chrono::steady_clock;
  const bool quiet_, terminal_;
  const Clock::time_point start_;
  Clock::time_point next_;  // nothing is shown before this time
  std::string phase_;
  Clock::time_point phase_start_;
  bool open_ = false;
};

// Returns "writing: 3.20 GiB of 14.19 GiB, 22% in 9s, ETA 31s".
std::string progress_text(std::string_view what, uint64_t done, uint64_t total, double seconds);

}  // namespace genesis::tools
