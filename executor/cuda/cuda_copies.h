// Copies of any size between the host's memory and a GPU's. CUDA copies asynchronously only from pinned memory, so the bytes go
// through a few pinned buffers: while the device copies some of them, all cores fill or empty the others.
#pragma once

#include <array>
#include <memory>

#include "backends/cuda/runtime/runtime.h"

namespace genesis {

// Lets the stream wait for what the process has given the default stream of CUDA so far: other libraries work there.
void follow_default_stream(cudaStream_t stream);

class CudaCopies {
 public:
  explicit CudaCopies(cudaStream_t stream) : stream_(stream) {}

  // Copies in the order of the stream. `from` may be reused on return; the call does not wait for the device.
  void upload(std::byte* to, const std::byte* from, int64_t bytes);
  // Returns when the bytes have arrived.
  void download(std::byte* to, const std::byte* from, int64_t bytes);

 private:
  struct PinnedBuffer {
    std::shared_ptr<std::byte> memory;  // allocated on first use
    cuda::Event done;                   // recorded behind the last copy that uses it
    int64_t used = 0;                   // bytes used by copies that may still be running
  };

  bool by_itself(int64_t bytes) const;
  std::byte* pinned_space(int64_t bytes);  // in buffers_[current_], from which upload() copies
  PinnedBuffer& next_buffer();             // an empty buffer that is no longer in use

  cudaStream_t stream_;
  std::array<PinnedBuffer, 4> buffers_;
  size_t current_ = 0;
};

}  // namespace genesis
