// Kernel table rows for Hopper chips, which come before those that run on every chip. They decline on a machine
// without such a chip. A plan may be made without a GPU, or on a machine with several different ones: there the row
// is kept, and falls back at run time.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl hopper_gradient_implementation();  // attention_grad, bf16, heads of 64: attention_gradient.cu
KernelImpl long_heads_implementation();  // attention, bf16, heads of 256 and 512: long_heads/long_heads.cu
KernelImpl long_heads_gradient_implementation();
KernelImpl exponentials_implementation();  // linear_cross_entropy, bf16 training: logit_exponentials.cu

// KernelImpl::why_not_here of these rows, and of those in skinny/ and swiglu/, which backends/cuda/product_implementations.h
// lists.
std::optional<std::string> why_no_hopper_here();

}  // namespace genesis::cuda
