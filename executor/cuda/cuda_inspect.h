// A look at what a step on a GPU has read or written, between steps. Used by cuda_runner.cpp where a run goes
// step by step: for observers, and to find values that are not finite.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/runtime/runtime.h"
#include "executor/runtime/nonfinite.h"

namespace genesis {

// Waits for what the stream has been given.
class CudaInspector {
 public:
  CudaInspector(int device, cudaStream_t stream) : device_(device), stream_(stream) {}

  // Buffers on the host.
  struct HostCopies {
    std::vector<std::vector<std::byte>> memory;
    std::vector<TensorView> views;
  };
  HostCopies host_copies(const std::vector<TensorView>& views) const;

  // The first of `views` with such a value, and where. Tensors are searched where they lie; only the places
  // found come to the host.
  std::optional<std::pair<size_t, Nonfinite>> first_bad(const std::vector<TensorView>& views);

 private:
  Nonfinite element(const TensorView& view, uint64_t index) const;

  int device_;
  cudaStream_t stream_;
  std::shared_ptr<std::byte> firsts_;  // on the device, by view; made when first asked for
  int64_t first_bytes_ = 0;
};

}  // namespace genesis
