// The CUDA backend's table of kernels and its Target. Neither needs a GPU.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

std::span<const KernelImpl> kernels_for(std::string_view op);  // empty if CUDA has none
// `evaluate` is left empty: constants are folded on the host, so the executor sets it.
Target cuda_target(int device);

}  // namespace genesis::cuda
