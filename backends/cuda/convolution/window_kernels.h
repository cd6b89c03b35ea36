// Plain kernels of convolutions and pooling for any dtype: a thread computes one element of the result, as a sum in one order.
#pragma once

#include "backends/common/window_shape.h"

namespace genesis::cuda {

// Kernels for KernelImpl::run; prepared by prepare_convolution() or prepare_pool().
void run_plain_convolution(const KernelContext& c);
void run_plain_transposed(const KernelContext& c);
void run_plain_weight_gradient(const KernelContext& c);
void run_max_pool(const KernelContext& c);
void run_max_pool_grad(const KernelContext& c);
void run_average_pool(const KernelContext& c);
void run_average_pool_grad(const KernelContext& c);

// Applies scale, bias, addend and activation of a convolution to its plain result, in place.
void finish_convolution(const KernelContext& c, const ConvolutionShape& shape);

}  // namespace genesis::cuda
