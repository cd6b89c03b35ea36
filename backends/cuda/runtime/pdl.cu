// What the machine code that this device runs was made for. Used by executor/cuda/cuda_runner.cpp.
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

__global__ void any_kernel() {}

}  // namespace

// Kernels of one build are all made for the same architectures.
bool code_has_pdl() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, any_kernel) == cudaSuccess) return attributes.ptxVersion >= 90;
  cudaGetLastError();
  return false;
}

}  // namespace genesis::cuda
