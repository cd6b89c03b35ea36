#include "executor/runtime/host_downloads.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/parallel/parallel.h"
#include "executor/runtime/device.h"
#include "executor/runtime/host_memory.h"

namespace genesis {
namespace {

constexpr int64_t kBlockBytes = 1 << 20;  // copied by one task

class HostDownloads final : public Downloads {
 public:
  explicit HostDownloads(Device& device) : device_(device) {}

  bool reserve(int64_t bytes, int64_t more) override {
    if (bytes <= memory_bytes_) return true;
    memory_.reset();
    memory_ = try_allocate_touched(bytes, more);
    memory_bytes_ = memory_ ? bytes : -1;
    return memory_ != nullptr;
  }

  void take(const std::vector<MemoryPart>& parts) override {
    std::vector<MemoryPart> blocks;
    for (const MemoryPart& part : parts)
      for (int64_t at = 0; at < part.bytes; at += kBlockBytes)
        blocks.push_back({part.from + at, std::min(kBlockBytes, part.bytes - at), part.offset + at});
    device_.enter([&] {
      cpu::parallel_chunks(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
        const MemoryPart& block = blocks[static_cast<size_t>(i)];
        std::memcpy(memory_.get() + block.offset, block.from, static_cast<size_t>(block.bytes));
      });
    });
  }

  const std::byte* wait() override { return memory_.get(); }

 private:
  Device& device_;
  std::shared_ptr<std::byte> memory_;
  int64_t memory_bytes_ = -1;
};

}  // namespace

std::unique_ptr<Downloads> make_host_downloads(Device& device) {
  return std::make_unique<HostDownloads>(device);
}

}  // namespace genesis
