// A ring in shared memory that belongs to one lane: the lane copies packs of 16 bytes into it some steps ahead and
// reads them back itself, so that it never waits for other lanes.
#pragma once

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// A ring of kDepth stages (one per step) of kPacks packs each. The packs of a warp's lanes lie side by side.
template <int kPacks, int kDepth>
struct LaneRing {
  static constexpr int kStages = kDepth;
  static constexpr int kWarpBytes = kDepth * kPacks * kLanes * 16;
  uint32_t first;  // address of the lane's first pack in shared memory

  LaneRing() = default;
  // `shared` has kWarpBytes for each warp of the block.
  __device__ __forceinline__ explicit LaneRing(const unsigned char* shared) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
    first = static_cast<uint32_t>(__cvta_generic_to_shared(shared + warp * kWarpBytes + lane * 16));
  }

  __device__ __forceinline__ uint32_t at(int stage, int pack) const {
    return first + static_cast<uint32_t>((stage * kPacks + pack) * kLanes * 16);
  }
  __device__ __forceinline__ Words read(int stage, int pack) const { return read_pack(at(stage, pack)); }

  // Starts the copies of the first kDepth steps: ask(stage, step) starts those of one step.
  template <class Ask>
  __device__ __forceinline__ static void fill(int step, int stride, const Ask& ask) {
#pragma unroll
    for (int stage = 0; stage < kDepth; ++stage) {
      ask(stage, step + stage * stride);
      end_batch();
    }
  }
  // Call after fill(). Calls use(stage, step) for each step for which is_there(step), while the copies of later steps
  // are in flight. Afterward every lane of the warp may overwrite the memory of the rings.
  template <class IsThere, class Use, class Ask>
  __device__ __forceinline__ static void drain(int step, int stride, const IsThere& is_there, const Use& use,
                                               const Ask& ask) {
    for (int stage = 0; is_there(step); step += stride) {
      wait_for_batches<kDepth - 1>();
      use(stage, step);
      ask(stage, step + kDepth * stride);
      end_batch();
      if (++stage == kDepth) stage = 0;
    }
    wait_for_batches<0>();
    __syncwarp();
  }
};

#endif

}  // namespace genesis::cuda
