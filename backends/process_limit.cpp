#include "backends/process_limit.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "schema/core/parallel.h"

namespace genesis {

namespace {

constexpr std::chrono::milliseconds kLookEvery{200};

[[noreturn]] void end_process(const std::string& why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  std::_Exit(1);
}

}  // namespace

ProcessLimit::ProcessLimit(double seconds, std::string why, std::function<std::string()> look)
    : seconds_(seconds),
      why_(std::move(why)),
      look_(std::move(look)),
      thread_(start_thread([this] { watch(); })) {}

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
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
  while (std::chrono::steady_clock::now() < end) {
    if (wake_.wait_for(lock, kLookEvery, [this] { return over_; })) return;
    if (const std::string why = look_ ? look_() : ""; !why.empty()) end_process(why);
  }
  end_process(why_);
}

}  // namespace genesis
