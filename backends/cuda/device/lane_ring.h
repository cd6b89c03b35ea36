// A ring in shared memory that is one lane's own: packs of 16 bytes that it copies there some steps ahead and reads back itself, so
// that it waits for no other lane. Used by skinny_gemm.cu and grouped_attention.cu.
#pragma once

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/words.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// kDepth stages, one a step, of kPacks packs each. The packs of a warp's lanes lie side by side.
template <int kPacks, int kDepth>
struct LaneRing {
  static constexpr int kStages = kDepth;
  static constexpr int kWarpBytes = kDepth * kPacks * kLanes * 16;
  uint32_t first;  // the lane's, in shared memory

  LaneRing() = default;
  // In `shared`, which has kWarpBytes for each warp of the block.
  __device__ __forceinline__ explicit LaneRing(const unsigned char* shared) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
    first = static_cast<uint32_t>(__cvta_generic_to_shared(shared + warp * kWarpBytes + lane * 16));
  }

  __device__ __forceinline__ uint32_t at(int stage, int pack) const {
    return first + static_cast<uint32_t>((stage * kPacks + pack) * kLanes * 16);
  }
  __device__ __forceinline__ Words read(int stage, int pack) const { return read_pack(at(stage, pack)); }

  // Begins the copies of the first kDepth steps: ask(stage, step) begins those of one.
  template <class Ask>
  __device__ __forceinline__ static void fill(int step, int stride, const Ask& ask) {
#pragma unroll
    for (int stage = 0; stage < kDepth; ++stage) {
      ask(stage, step + stage * stride);
      end_batch();
    }
  }
  // After fill(): use(stage, step) of each step that there is, while those behind it are on their way. Then every lane of the warp
  // may write where the rings were.
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
