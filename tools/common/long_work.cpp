#include "tools/common/long_work.h"

#include "tools/common/printable.h"

namespace genesis::tools {

LongWork::LongWork(bool quiet) : quiet_(quiet), progress_(quiet) {
  if (!quiet) thread_ = std::thread([this] { show(); });
}

LongWork::~LongWork() {
  if (quiet_) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void LongWork::say(std::string_view what, uint64_t done, uint64_t total) {
  const std::lock_guard lock(mutex_);
  what_ = printable(what);  // names in it come from files
  done_ = done;
  total_ = total;
}

OnProgress LongWork::hook() {
  if (quiet_) return {};
  return [this](std::string_view what, uint64_t done, uint64_t total) { say(what, done, total); };
}

void LongWork::show() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, std::chrono::milliseconds(200), [&] { return is_over_; }))
    if (!what_.empty()) progress_.update(what_, done_, total_);
}

}  // namespace genesis::tools
