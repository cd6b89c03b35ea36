// Rows for Hopper chips, which tables of kernels/ have ahead of those that run on every chip. They decline on a machine without
// such a chip. A plan may be made without a GPU, or for one of several unlike ones: then a row hands its nodes on where it runs.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl hopper_gradient_way();  // attention_grad, bf16, heads of 64: attention_gradient.cu
KernelImpl exponentials_way();     // linear_cross_entropy, bf16 training: logit_exponentials.cu

// KernelImpl::why_not_here of these rows, and of those in swiglu/, which backends/cuda/product_ways.h lists.
std::optional<std::string> why_no_hopper_here();

}  // namespace genesis::cuda
