// Clusters: blocks that run at the same time and read each other's shared memory (compute capability 9.0). Kernels that
// are compiled for older chips run with one block to a cluster. Used by skinny_gemm.cu, hopper/skinny and grouped_attention.cu.
#pragma once

#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// A barrier of all threads of all blocks, in two halves: what a thread wrote before the first is seen behind the second.
__device__ __forceinline__ void arrive_in_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_in_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// Both halves.
__device__ __forceinline__ void wait_for_cluster() {
  arrive_in_cluster();
  wait_in_cluster();
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ uint32_t address_in_block(const void* at, int block) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(at)), "r"(block));
  return address;
}
#endif

// What another of the cluster's `blocks` has where this one has `at`, in shared memory: a float or a float4.
template <class V>
__device__ __forceinline__ V read_of_block(const V* at, [[maybe_unused]] int block,
                                           [[maybe_unused]] int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    V value;
    const uint32_t there = address_in_block(at, block);
    if constexpr (sizeof(V) == sizeof(float))
      asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
    else
      asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                   : "r"(there)
                   : "memory");
    return value;
  }
#endif
  return *at;
}

#endif

// As PdlLaunch, of clusters of `cluster` blocks, which divide `blocks`.
struct ClusterLaunch {
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attributes[3];

  ClusterLaunch(const ClusterLaunch&) = delete;  // config points into it
  ClusterLaunch(const Launch& launch, unsigned blocks, unsigned threads, size_t shared, unsigned cluster) {
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared;
    config.stream = launch.stream;
    config.attrs = attributes;
    if (launch.early) {
      attribute(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed =
          1;
      attribute(cudaLaunchAttributePreferredSharedMemoryCarveout).sharedMemCarveout = 100;
    }
    if (cluster > 1) attribute(cudaLaunchAttributeClusterDimension).clusterDim = {cluster, 1, 1};
  }

 private:
  cudaLaunchAttributeValue& attribute(cudaLaunchAttributeID id) {
    attributes[config.numAttrs].id = id;
    return attributes[config.numAttrs++].val;
  }
};

}  // namespace genesis::cuda
