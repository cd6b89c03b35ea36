// Copies of a device's memory that go to the host beside its runs. A Device makes them; StateSnapshot uses
// them for checkpoints. On the CPU: host_downloads.cpp; on a GPU: cuda_downloads.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace genesis {

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

}  // namespace genesis
