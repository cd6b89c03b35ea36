#include "executor/runtime/device_tensors.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace genesis {
namespace {

class GpuAddresses {
 public:
  void add(const std::byte* data, int gpu) {
    const std::lock_guard lock(mutex_);
    gpus_.emplace(data, gpu);
    count_ = gpus_.size();
  }
  void remove(const std::byte* data) {
    const std::lock_guard lock(mutex_);
    gpus_.erase(gpus_.find(data));
    count_ = gpus_.size();
  }
  std::optional<int> find(const std::byte* data) {
    if (count_ == 0) return std::nullopt;  // every input of every run comes here
    const std::lock_guard lock(mutex_);
    const auto at = gpus_.find(data);
    return at == gpus_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  std::mutex mutex_;
  std::multimap<const std::byte*, int> gpus_;  // an address once for each tensor over it
  std::atomic<size_t> count_ = 0;
};

// Never destroyed, since tensors of other static objects may outlive it.
GpuAddresses& addresses() {
  static auto* const made = new GpuAddresses;
  return *made;
}

struct Kept {
  Kept(std::shared_ptr<const void> its_owner, const std::byte* its_data, int gpu)
      : owner(std::move(its_owner)), data(its_data) {
    addresses().add(data, gpu);
  }
  ~Kept() { addresses().remove(data); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  std::shared_ptr<const void> owner;
  const std::byte* data;
};

}  // namespace

Tensor tensor_on_gpu(const TensorType& type, std::shared_ptr<const void> owner, const std::byte* data,
                     int gpu) {
  if (type.numel() == 0) return Tensor(type, std::move(owner), data);
  return Tensor(type, std::make_shared<Kept>(std::move(owner), data, gpu), data);
}

std::optional<int> gpu_of(const std::byte* data) { return addresses().find(data); }

}  // namespace genesis
