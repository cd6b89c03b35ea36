// Copies device memory to the host while runs go on, for checkpoints. On the CPU: host_downloads.cpp; on a GPU:
// cuda_downloads.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace genesis {

// A range of device memory, and the offset of its copy among the copies.
struct MemoryPart {
  const std::byte* from = nullptr;
  int64_t bytes = 0, offset = 0;
};

// Reuses its memory from one take() to the next. Calls must not overlap, but may come from several threads.
class Downloads {
 public:
  virtual ~Downloads() = default;
  // Reserves host memory for `bytes` bytes of copies, and checks that the caller can allocate `more` bytes. Takes seconds for
  // gigabytes, so call it while runs go on. Returns false if the host has too little memory left.
  virtual bool reserve(int64_t bytes, int64_t more) = 0;
  // Copies the parts as they are between two runs. Returns when the second run may begin. The parts must fit into the reserved
  // memory.
  virtual void take(const std::vector<MemoryPart>& parts) = 0;
  // Waits for the copies and returns them. They stay valid until the next take() or reserve().
  virtual const std::byte* wait() = 0;
};

}  // namespace genesis
