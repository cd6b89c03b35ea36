// Shows on stderr that genesis-viz is working: the lines of FileProgress. Some of its work reports nothing for a minute
// (Graphviz lays out a large graph), so a thread shows the last word again and again, with the time that it took so far.
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
  ~LongWork();  // takes its line off the terminal
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  void say(std::string_view what, uint64_t done = 0, uint64_t total = 0);
  OnProgress hook();  // say(), for as long as this lives; nothing for a quiet one

 private:
  void show();

  const bool quiet_;
  FileProgress progress_;
  std::mutex mutex_;  // of everything below
  std::condition_variable ends_;
  bool is_over_ = false;
  std::string what_;
  uint64_t done_ = 0, total_ = 0;
  std::thread thread_;
};

}  // namespace genesis::tools
