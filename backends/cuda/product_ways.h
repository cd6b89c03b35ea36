// The rows of matmul and linear that are more than one product, each in the folder of its way, which this file does not see:
// kernels/nn/matmul.cpp lists them. And what all of them do with a node whose buffers they cannot take.
#pragma once

#include "backends/cuda/kernels.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

KernelImpl linear_gemv_prefetch_way();          // gemm/gemv_prefetch
KernelImpl linear_gemv_way();                   // gemm/gemv
KernelImpl linear_skinny_gemm_way();            // gemm/skinny
KernelImpl linear_quantized_gemv_stream_way();  // gemm/quantized_stream
KernelImpl linear_quantized_gemv_way();         // gemm/quantized
KernelImpl linear_skinny_resident_way();        // hopper/skinny
KernelImpl linear_swiglu_epilogue_way();        // hopper/swiglu
KernelImpl matmul_swiglu_epilogue_way();        // hopper/swiglu
KernelImpl matmul_bias_grad_way();              // gemm/bias_grad

// What a launch says of single inputs of the step does not hold for the parts' own.
template <class Parts>
void run_decomposed(const Parts& parts, const KernelContext& c) {
  Launch launch = launch_of(c);
  launch.independent = 0;
  KernelContext own = c;
  own.launch = &launch;
  parts.run(own);
}

}  // namespace genesis::cuda
