// The CUDA backend's table of kernels and its Target. Used by the CUDA runner (executor/) and by tests.
// Asking for either needs no GPU.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

std::span<const KernelImpl> kernels_for(std::string_view op);  // empty when CUDA has none
// Without `evaluate`: constants are folded on the host, so the executor fills it in.
Target cuda_target(int device);

}  // namespace genesis::cuda
