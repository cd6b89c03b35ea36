// Keeps facts of devices, each read once: those of the chip that runs (runtime.h), and those that plans depend on (chips.h).
#pragma once

#include <map>
#include <mutex>

namespace genesis::cuda {

template <class Facts>
class ByDevice {
 public:
  explicit ByDevice(Facts (*read)(int device)) : read_(read) {}

  // Any thread may call it. The reference stays valid. Throws what reading throws, and then reads again at the next call.
  const Facts& operator[](int device) {
    const std::lock_guard lock(mutex_);
    const auto at = facts_.find(device);
    return at == facts_.end() ? facts_.emplace(device, read_(device)).first->second : at->second;
  }

 private:
  Facts (*const read_)(int device);
  std::mutex mutex_;
  std::map<int, Facts> facts_;
};

}  // namespace genesis::cuda
