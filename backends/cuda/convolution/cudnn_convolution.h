// The implementation `cudnn` of the three convolutions: cuDNN computes the sums. It applies the epilogue, too, in 16 bits with the
// channels last, if it has a plan for that; otherwise one more kernel does. If the library is missing or has no plan, the plain
// kernels run.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl cudnn_convolution();
KernelImpl cudnn_transposed();
KernelImpl cudnn_weight_gradient();

}  // namespace genesis::cuda
