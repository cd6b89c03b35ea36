// Pooling: a thread visits the elements of a window, or in a gradient the windows of an element. Maxima with the channels last are
// computed for a pack of channels at a time.
#include "schema/ops/nn/pooling.h"

#include "backends/cuda/convolution/pool_packs.h"
#include "backends/cuda/convolution/window_kernels.h"

namespace genesis::cuda {

std::span<const OpKernel> pooling_kernels() {
  static const OpKernel kKernels[] = {
      {"max_pool", packed_max_pool()},
      {"max_pool", {.name = "windows", .run = run_max_pool, .prepare = prepare_pool}},
      {"max_pool_grad", packed_max_pool_grad()},
      {"max_pool_grad", {.name = "windows", .run = run_max_pool_grad, .prepare = prepare_pool}},
      {"average_pool", {.name = "windows", .run = run_average_pool, .prepare = prepare_pool}},
      {"average_pool_grad", {.name = "windows", .run = run_average_pool_grad, .prepare = prepare_pool}},
  };
  return kKernels;
}

}  // namespace genesis::cuda
