// Looks for NaN and infinities where a tensor lies: only the answer leaves the device. Used by the CUDA
// runner when it is asked which node made a value that is not finite.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/kernel.h"

namespace genesis::cuda {

inline constexpr uint64_t kAllFinite = ~uint64_t{0};

// *first, in device memory, becomes the index of the first element that is not finite, or kAllFinite.
void find_nonfinite(cudaStream_t stream, const TensorView& view, uint64_t* first);

}  // namespace genesis::cuda
