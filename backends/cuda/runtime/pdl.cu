// Tells for which architecture the machine code that this device runs was compiled.
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

__global__ void any_kernel() {}

}  // namespace

// All kernels of a build are compiled for the same architectures.
bool code_has_pdl() {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, any_kernel) == cudaSuccess) return attributes.ptxVersion >= 90;
  cudaGetLastError();
  return false;
}

}  // namespace genesis::cuda
