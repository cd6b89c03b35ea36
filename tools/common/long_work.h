// Shows on stderr that genesis-viz is working, with the lines of FileProgress. Some of its work reports nothing for a
// minute (Graphviz lays out a large graph), so a thread repeats the last text with the time elapsed.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "tools/common/file_progress.h"

namespace genesis::tools {

class LongWork {
 public:
  explicit LongWork(bool quiet);
  ~LongWork();  // removes its line from the terminal
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  void say(std::string_view what, uint64_t done = 0, uint64_t total = 0);
  OnProgress hook();  // calls say() while this object exists; empty if quiet

 private:
  void show();

  const bool quiet_;
  FileProgress progress_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable ends_;
  bool is_over_ = false;
  std::string what_;
  uint64_t done_ = 0, total_ = 0;
  std::thread thread_;
};

}  // namespace genesis::tools
