// The rows of linear that are specialised ways, each in a folder of its own, which this file does not see: kernels/nn/matmul.cpp
// lists them.
#pragma once

#include "backends/kernel.h"

namespace genesis::cpu {

// Each row of x [..., 1, k] is an entry of a batch by itself, such as the next token of one of several texts that are
// written side by side. A row of the result then has the same bits for every number of rows: all numbers of rows are
// done by the loops that are fastest for one row, which sum up each element in one order (gemm.cpp chooses them). Rows of x
// [..., n, k] belong together, and their number chooses the way.
inline bool rows_are_alone(const Shape& x) {
  return x.rank() > 2 && x[x.rank() - 2].is_constant() && x[x.rank() - 2].value() == 1;
}

KernelImpl linear_gemv_way();              // gemm/gemv
KernelImpl linear_quantized_gemv_way();    // quantized/quantized_rows_way.cpp
KernelImpl linear_quantized_panels_way();  // quantized/quantized_panels_way.cpp

}  // namespace genesis::cpu
