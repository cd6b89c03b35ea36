// Adds the sums of a cluster's blocks, which share k. Each block finishes a share of the sums; the others push their
// sums of that share straight into its shared memory, where a barrier counts the bytes.
#pragma once

#include "backends/cuda/device/cluster.h"
#include "backends/cuda/gemm/few_rows/skinny_gemm_sums.h"
#include "backends/cuda/hopper/hopper.h"

#ifdef GENESIS_HOPPER

namespace genesis::cuda::skinny_resident {

// Writes four numbers into the memory of a block of the cluster and reports them to its barrier.
__device__ __forceinline__ void push(uint32_t to, uint32_t barrier, const float4& v) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)), "r"(__float_as_uint(v.z)),
               "r"(__float_as_uint(v.w)), "r"(barrier)
               : "memory");
}

// There are S::kSums sums; block r of the cluster finishes those from r * kSums / parts on.
template <class S>
struct ClusterSums {
  float4* arriving;  // [parts][kSums / parts], by the block that they come from
  uint64_t* barrier;
  int rank, parts;

  __device__ __forceinline__ int share() const { return S::kSums / parts; }

  // All threads call this before anything is pushed.
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
      init_barrier(barrier, 1);
      let_copies_see_barriers();
      expect_bytes(barrier, S::kSums * sizeof(float4));
    }
    arrive_in_cluster();
  }
  // Pushes the block's sums over its warps; called after a barrier of the block.
  __device__ __forceinline__ void push_all(const skinny_gemm::SharedSums<S>& sums) const {
    wait_in_cluster();
    for (int i = static_cast<int>(threadIdx.x); i < S::kSums; i += S::kAll) {
      const int owner = i / share();
      push(address_in_block(arriving + rank * share() + i % share(), owner), address_in_block(barrier, owner),
           sums.all_warps(i));
    }
    wait_for_phase(barrier, 0);
  }
  // Returns sum i of this block's share, adding the blocks' sums in order.
  __device__ __forceinline__ float4 all(int i) const {
    const int own = i % share();
    float4 sum = arriving[own];
    for (int part = 1; part < parts; ++part) skinny_gemm::add(sum, arriving[part * share() + own]);
    return sum;
  }
};

}  // namespace genesis::cuda::skinny_resident

#endif
