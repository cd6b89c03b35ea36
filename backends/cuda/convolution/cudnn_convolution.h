// The implementation `cudnn` of the three convolutions: cuDNN computes the sums, and one more kernel applies the epilogue. If the
// library is missing or has no plan, the plain kernels run.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl cudnn_convolution();
KernelImpl cudnn_transposed();
KernelImpl cudnn_weight_gradient();

}  // namespace genesis::cuda
