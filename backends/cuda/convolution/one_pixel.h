// The implementation `one_pixel` of convolution: windows of one element over maps of one pixel, as squeeze-and-excitation has them. Such
// a product of a few rows has any number of channels.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl one_pixel_convolution();

}  // namespace genesis::cuda
