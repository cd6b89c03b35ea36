// Declares the specialized kernel implementations of `linear` and `grouped_matmul`, each of which lives in its own folder. kernels/nn/matmul.cpp and
// grouped_matmul.cpp list them without including those folders.
#pragma once

#include "backends/kernel.h"

namespace genesis::cpu {

// Returns true for x [..., 1, k]: each row is then its own batch entry, such as the next token of one of several sequences that
// are decoded together. All numbers of such rows are computed by the loops for one row, which sum the products of an element in
// one order (gemm.cpp chooses them), so that a row's result has the same bits whatever the number of rows. Rows of x [..., n, k]
// belong to one entry, and their number chooses the implementation.
inline bool rows_are_alone(const Shape& x) {
  return x.rank() > 2 && x[x.rank() - 2].is_constant() && x[x.rank() - 2].value() == 1;
}

KernelImpl linear_gemv_implementation();              // gemm/gemv
KernelImpl linear_quantized_gemv_implementation();    // quantized/quantized_rows_implementation.cpp
KernelImpl grouped_gemv_implementation();             // gemm/gemv/grouped_rows.cpp
KernelImpl grouped_quantized_gemv_implementation();   // quantized/grouped_quantized_rows.cpp
KernelImpl linear_quantized_panels_implementation();  // quantized/quantized_panels_implementation.cpp

}  // namespace genesis::cpu
