// Rows for Hopper chips, which tables of kernels/ have ahead of those that run on every chip. A plan is made without a GPU:
// on other chips a row hands its nodes on.
#pragma once

#include "backends/kernel.h"

namespace genesis::cuda {

KernelImpl hopper_gradient_way();  // attention_grad, bf16, heads of 64: attention_gradient.cu
KernelImpl exponentials_way();     // linear_cross_entropy, bf16 training: logit_exponentials.cu

}  // namespace genesis::cuda
