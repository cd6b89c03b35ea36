// Clusters: thread blocks that run at the same time and can read each other's shared memory (compute capability 9.0).
// Kernels compiled for older chips run with one block per cluster.
#pragma once

#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// A barrier of all threads of all blocks of the cluster, split in two: writes before arrive_in_cluster() are visible
// after wait_in_cluster().
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
// arrive_in_cluster() and wait_in_cluster().
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

// Reads, from the shared memory of block `block` of the cluster, the float or float4 that lies at the same offset as
// `at` in this block. The cluster has `blocks` blocks.
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

// A PdlLaunch with clusters of `cluster` blocks; `cluster` divides `blocks`.
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
