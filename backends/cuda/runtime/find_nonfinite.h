// Searches a tensor for NaN and infinities on the device; only the index leaves the device.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/kernel.h"

namespace genesis::cuda {

inline constexpr uint64_t kAllFinite = ~uint64_t{0};

// Sets *first, in device memory, to the index of the first element that is not finite, or to kAllFinite.
void find_nonfinite(cudaStream_t stream, const TensorView& view, uint64_t* first);

}  // namespace genesis::cuda
