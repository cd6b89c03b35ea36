// Shows the progress of a loop on stderr: a line updated in place on a terminal, else plain lines now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace genesis::tools {

class Progress {
 public:
  Progress(int64_t first, int64_t total, bool quiet = false);
  ~Progress();
  // `facts` is printed after the bar: "loss 2.31  12.3k tok/s".
  void update(int64_t done, const std::string& facts);
  void finish();

 private:
  void draw_bar(const std::string& facts);

  using Clock = std::chrono::steady_clock;
  const int64_t first_, total_;
  const bool quiet_, terminal_;
  int64_t done_;
  Clock::time_point start_, drawn_{};
  bool open_ = false;
};

}  // namespace genesis::tools
