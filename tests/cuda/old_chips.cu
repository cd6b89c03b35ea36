// This code is never run. It is compiled for chips before compute capability 9.0 when the build folder's own objects
// are not. Only these headers leave out what those chips lack, so that kernels need no conditions for it.
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/cluster.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

__global__ void old_chips(uint64_t* barrier, float* out) {
  pdl_wait();
  pdl_launch_dependents();
  init_barrier(barrier, 1);
  let_copies_see_barriers();
  expect_bytes(barrier, 16);
  copy_to_shared(out, out, 16, barrier);
  stream_to_shared(out, out, 16, barrier, evict_first_policy());
  prefetch_into_cache(out, 16);
  arrive(barrier, 1);
  wait_for_phase(barrier, 0);
  wait_for_cluster();
  *out = read_of_block(out, 0, 1);
}

}  // namespace genesis::cuda
