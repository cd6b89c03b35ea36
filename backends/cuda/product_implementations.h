// The rows of matmul and linear that are more than one product, and those of grouped_matmul. Each is defined in the
// folder named beside it, and kernels/nn/matmul.cpp and grouped_matmul.cu list them. Also, the fallback that all of them
// use for a node whose buffers they cannot take.
#pragma once

#include "backends/cuda/kernels.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

KernelImpl linear_gemv_prefetch_implementation();          // gemm/few_rows
KernelImpl linear_gemv_implementation();                   // gemm/few_rows
KernelImpl linear_skinny_gemm_implementation();            // gemm/few_rows
KernelImpl linear_quantized_gemv_stream_implementation();  // gemm/few_rows
KernelImpl linear_quantized_gemv_implementation();         // gemm/few_rows
KernelImpl linear_row_tiles_implementation();              // hopper/row_tiles
KernelImpl linear_skinny_resident_implementation();        // hopper/skinny
KernelImpl linear_swiglu_epilogue_implementation();        // hopper/swiglu
KernelImpl matmul_swiglu_epilogue_implementation();        // hopper/swiglu
KernelImpl matmul_bias_grad_implementation();              // gemm/bias_grad
KernelImpl grouped_rows_implementation();                  // hopper/grouped
KernelImpl grouped_sums_implementation();                  // hopper/grouped, grouped_matmul_grad

// Run grouped_matmul, and grouped_matmul_grad, of any sizes and dtype: kernels/nn/grouped_matmul.cu.
void run_grouped_tiles(const KernelContext& c);
void run_grouped_gradient_tiles(const KernelContext& c);

// Runs a node by the kernels of its decomposition. A launch's independent bits are for the step's inputs, not for
// those of the decomposition, so they are cleared.
template <class Decomposed>
void run_decomposed(const Decomposed& decomposed, const KernelContext& c) {
  Launch launch = launch_of(c);
  launch.independent = 0;
  KernelContext own = c;
  own.launch = &launch;
  decomposed.run(own);
}

}  // namespace genesis::cuda
