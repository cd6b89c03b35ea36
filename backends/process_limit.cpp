#include "backends/process_limit.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "schema/core/parallel.h"

namespace genesis {

ProcessLimit::ProcessLimit(double seconds, std::string why)
    : seconds_(seconds), why_(std::move(why)), thread_(start_thread([this] { watch(); })) {}

ProcessLimit::~ProcessLimit() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ProcessLimit::watch() {
  std::unique_lock lock(mutex_);
  if (wake_.wait_for(lock, std::chrono::duration<double>(seconds_), [this] { return over_; })) return;
  std::fprintf(stderr, "error: %s\n", why_.c_str());
  std::_Exit(1);
}

}  // namespace genesis
