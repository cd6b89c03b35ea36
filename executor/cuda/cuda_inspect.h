// Inspects the data that a step on a GPU has read or written, between steps. Used for runs that go step by step: for observers,
// and to find values that are not finite.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/runtime/runtime.h"
#include "executor/runtime/nonfinite.h"

namespace genesis {

// Every call waits for the work on the stream.
class CudaInspector {
 public:
  CudaInspector(int device, cudaStream_t stream) : device_(device), stream_(stream) {}

  // Copies of buffers on the host, with views of them.
  struct HostCopies {
    std::vector<std::vector<std::byte>> memory;
    std::vector<TensorView> views;
  };
  HostCopies host_copies(const std::vector<TensorView>& views) const;

  // Returns the index of the first of `views` with a NaN or an infinity, and its place. Tensors are searched on the device; only
  // the places found are copied to the host.
  std::optional<std::pair<size_t, Nonfinite>> first_bad(const std::vector<TensorView>& views);

 private:
  Nonfinite element(const TensorView& view, uint64_t index) const;

  int device_;
  cudaStream_t stream_;
  std::shared_ptr<std::byte> firsts_;  // on the device, by view; allocated on first use
  int64_t first_bytes_ = 0;
};

}  // namespace genesis
