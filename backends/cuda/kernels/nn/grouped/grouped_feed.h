// The inputs of grouped_attention.cu: the work of a block, and the copies of each lane into its own ring. Device code
// for that file alone.
#pragma once

#include "backends/cuda/device/lane_ring.h"
#include "backends/cuda/kernels/nn/cached_call.h"

namespace genesis::cuda::grouped {

constexpr int kWarps = 4, kAll = kWarps * kLanes, kKeys = 16, kHeads = 8;  // kKeys: keys per step of a warp

// kDepth: steps of a warp in flight. Rings of three steps of small heads let four blocks share a multiprocessor, rings of
// four steps three.
template <int kSize, int kDepth = kSize == 64 ? 4 : 3>
struct Sizes {
  static constexpr int kBlocksOfOne = kSize == 128 ? 2 : kDepth == 3 ? 4 : 3;  // blocks of a multiprocessor
  static constexpr int kQuarters = kSize / 32, kBlocks = kSize / 64;           // slices of a key, of a value
  static constexpr int kPacks = 2 * kQuarters + 4 * kBlocks;
  using Ring = LaneRing<kPacks, kDepth>;
  static constexpr int kRing = Ring::kWarpBytes;
  static constexpr int kSharedBytes = kWarps * kRing;
  static_assert(kRing >= kHeads * (kSize + 2) * 4, "a warp puts its state where its ring was");
};

// The work of a block: the query heads of a key head of a text, and a range of keys.
struct BlockTask {
  int split, key_head, batch, begin, end;

  __device__ __forceinline__ BlockTask(const CachedCall& c, int start) {
    const auto block = static_cast<int>(blockIdx.x);
    split = block % c.plan.splits;
    key_head = block / c.plan.splits % c.key_heads;
    batch = block / c.plan.splits / c.key_heads;
    const int first = c.window == 0 ? 0 : max(0, start + 1 - c.window), count = start - first;
    const int each = (count + c.plan.splits - 1) / c.plan.splits, whole = (each + kKeys - 1) / kKeys * kKeys;
    begin = min(start, first + split * whole);
    end = min(start, begin + whole);
  }
};

__device__ __forceinline__ int batch_of_block(const CachedCall& c) {
  return static_cast<int>(blockIdx.x) / c.plan.splits / c.key_heads;
}

// Copies eight elements one by one, for caches that do not start at a multiple of 16 bytes.
template <class T>
__device__ __noinline__ void copy_elements(uint32_t to, const T* from, bool there) {
  float elements[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) elements[i] = there ? widen(from[i]) : 0;
  const Words words = words_of<T>(elements);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}

// A lane's ring. Of each step's 16 keys, lane 4 * g + t copies keys g and g + 8, eight features of each quarter; of
// the values it copies 2t, 2t + 1, 2t + 8 and 2t + 9, eight neighboring features of each block.
template <class T, int kSize, int kDepth>
struct LaneFeed {
  using S = Sizes<kSize, kDepth>;
  const T *keys, *values;  // the lane's first elements, at position 0
  int step;                // elements from a position to the next
  int end;
  typename S::Ring ring;
  bool packed;

  __device__ __forceinline__ void copy(uint32_t to, const T* from, bool there) const {
    if (!packed) return copy_elements(to, from, there);
    copy_or_zero(to, from, there);
  }
  // Starts the copies of one step; positions past the end become zeros.
  __device__ __forceinline__ void ask(int stage, int position) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes, g = lane / 4, t = lane % 4;
    int pack = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int j = position + half * 8 + g;
#pragma unroll
      for (int quarter = 0; quarter < S::kQuarters; ++quarter)
        copy(ring.at(stage, pack++), keys + (j < end ? int64_t{j} * step + quarter * 32 : 0), j < end);
    }
#pragma unroll
    for (int value = 0; value < 4; ++value) {
      const int j = position + value / 2 * 8 + t * 2 + value % 2;
#pragma unroll
      for (int block = 0; block < S::kBlocks; ++block)
        copy(ring.at(stage, pack++), values + (j < end ? int64_t{j} * step + block * 64 : 0), j < end);
    }
  }
  __device__ __forceinline__ Words key(int stage, int half, int quarter) const {
    return ring.read(stage, half * S::kQuarters + quarter);
  }
  __device__ __forceinline__ Words value(int stage, int value, int block) const {
    return ring.read(stage, 2 * S::kQuarters + value * S::kBlocks + block);
  }
};

template <class T, int kSize, int kDepth>
__device__ __forceinline__ LaneFeed<T, kSize, kDepth> feed_of(const CachedCall& c, const BlockTask& at,
                                                              unsigned char* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, step = c.key_heads * kSize;
  const int64_t first = at.batch * c.positions * step + int64_t{at.key_head} * kSize;
  LaneFeed<T, kSize, kDepth> feed;
  feed.keys = static_cast<const T*>(c.k_cache) + first + lane % 4 * 8;
  feed.values = static_cast<const T*>(c.v_cache) + first + lane / 4 * 8;
  feed.step = step;
  feed.end = at.end;
  feed.packed = c.packed;
  feed.ring = typename Sizes<kSize, kDepth>::Ring(shared);
  return feed;
}

}  // namespace genesis::cuda::grouped
