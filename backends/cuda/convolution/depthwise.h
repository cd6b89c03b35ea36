// Convolutions of each channel by itself with the channels last: a thread computes a few neighbors of a row for a pack of channels,
// with the weights of a row of the window in registers.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl depthwise_convolution();
KernelImpl depthwise_transposed();
KernelImpl depthwise_weight_gradient();

}  // namespace genesis::cuda
