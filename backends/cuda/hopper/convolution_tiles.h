// Kernel table rows of convolutions for Hopper chips: kernels/nn/convolution.cpp lists them ahead of those for every chip.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl depthwise_tiles_convolution();  // depthwise/
KernelImpl depthwise_tiles_transposed();
KernelImpl pointwise_tiles_convolution();  // pointwise/

}  // namespace genesis::cuda
