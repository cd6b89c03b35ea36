// The rows of linear that are specialised ways, each in a folder of its own, which this file does not see: kernels/nn/matmul.cpp
// lists them.
#pragma once

#include "backends/kernel.h"

namespace genesis::cpu {

KernelImpl linear_gemv_way();              // gemm/gemv
KernelImpl linear_quantized_gemv_way();    // quantized/quantized_rows_way.cpp
KernelImpl linear_quantized_panels_way();  // quantized/quantized_panels_way.cpp

}  // namespace genesis::cpu
