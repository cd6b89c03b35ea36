// Copies of any size between the host's memory and a GPU's. CUDA reads only pinned memory by itself, so the
// bytes go through pinned pieces: while the device copies some, all cores fill or empty others. Used by
// cuda_device.cpp for weights, states and large outputs.
#pragma once

#include <array>
#include <memory>

#include "backends/cuda/runtime/runtime.h"

namespace genesis {

class CudaCopies {
 public:
  explicit CudaCopies(cudaStream_t stream) : stream_(stream) {}

  // In the order of the stream; `from` may be reused on return, which does not wait for the device.
  void upload(std::byte* to, const std::byte* from, int64_t bytes);
  // Returns when the bytes are there.
  void download(std::byte* to, const std::byte* from, int64_t bytes);

 private:
  struct Piece {
    std::shared_ptr<std::byte> memory;  // made when first needed
    cuda::Event done;                   // behind the last copy that uses it
    int64_t used = 0;                   // bytes, of copies that may still be on their way
  };

  bool by_itself(int64_t bytes) const;
  std::byte* room_for(int64_t bytes);  // in pieces_[current_], which upload() has copied from
  Piece& next_piece();                 // whole, and no longer in use

  cudaStream_t stream_;
  std::array<Piece, 4> pieces_;
  size_t current_ = 0;
};

}  // namespace genesis
