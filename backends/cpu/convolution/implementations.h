// The implementations of convolutions on the CPU that kernels/nn/convolution.cpp lists, for f32, bf16 and f16; sums are f32. All
// numbers of 16 bits are converted once.
#pragma once

#include "backends/kernel.h"

namespace genesis::cpu {

KernelImpl tiled_convolution();      // any convolution
KernelImpl depthwise_convolution();  // one input channel in each group
// f32 with the channels last and packed weights: windows of 3 x 3, any convolution, and one of one channel in each group.
KernelImpl winograd_convolution();
KernelImpl pixel_convolution();
KernelImpl neighbor_convolution();
KernelImpl neighbor_max_pool();  // f32 with the channels last
KernelImpl neighbor_average_pool();
KernelImpl tiled_transposed();
KernelImpl tiled_weight_gradient();

// Returns why the implementations above cannot run a node: another dtype, channels at the end, or no
// elements.
std::optional<std::string> tiles_decline(const KernelQuery& query);

}  // namespace genesis::cpu
