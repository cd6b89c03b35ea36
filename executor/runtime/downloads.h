// Copies of a device's memory that go to the host beside its runs. A Device makes them; StateSnapshot uses
// them for checkpoints. On the CPU: downloads.cpp; on a GPU: cuda_downloads.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace genesis {

class Device;

// Memory of a device, and where among the copies its copy goes.
struct MemoryPart {
  const std::byte* from = nullptr;
  int64_t bytes = 0, offset = 0;
};

// Reuses its memory from one take() to the next. Its calls must follow one another; they may come from
// several threads.
class Downloads {
 public:
  virtual ~Downloads() = default;
  // Memory of the host for so many bytes of copies and `more` bytes that the caller will ask for, made ready
  // as far as can be done ahead, which takes seconds for gigabytes: call it beside runs. False: the host has
  // not that much left.
  virtual bool reserve(int64_t bytes, int64_t more) = 0;
  // Between two runs: copies what the parts hold after the first. Returns when the second may begin.
  // Everything must fit in what has been reserved.
  virtual void take(const std::vector<MemoryPart>& parts) = 0;
  // The copies, once all are there; they stay until the next take() or reserve().
  virtual const std::byte* wait() = 0;
};

// For a device whose memory the host reads: copies by all its cores, done when take() returns.
std::unique_ptr<Downloads> make_host_downloads(Device& device);

// Page-aligned memory of the host, its pages there already; null when that and `more` bytes would leave the
// host short.
std::shared_ptr<std::byte> try_allocate_touched(int64_t bytes, int64_t more);

}  // namespace genesis
