// The ways of matmul and linear that are more than one product, each in a file of its own; matmul.cpp lists them.
#pragma once

#include "backends/cuda/kernels.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

KernelImpl linear_gemv_prefetch_way();          // linear_gemv.cpp
KernelImpl linear_gemv_way();                   // linear_gemv.cpp
KernelImpl linear_skinny_gemm_way();            // linear_skinny_gemm.cpp
KernelImpl linear_quantized_gemv_stream_way();  // quantized_linear.cpp
KernelImpl linear_quantized_gemv_way();         // quantized_linear.cpp
KernelImpl linear_swiglu_epilogue_way();        // swiglu_epilogue.cu
KernelImpl matmul_swiglu_epilogue_way();        // swiglu_epilogue.cu
KernelImpl matmul_bias_grad_way();              // bias_grad.cpp

// What a launch says of single inputs of the step does not hold for those of the kernels inside it.
template <class Decomposed>
void run_decomposed(const Decomposed& decomposed, const KernelContext& c) {
  Launch launch = launch_of(c);
  launch.independent = 0;
  KernelContext own = c;
  own.launch = &launch;
  decomposed.run(own);
}

}  // namespace genesis::cuda
