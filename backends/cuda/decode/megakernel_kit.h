// Shared code of megakernel.cu and its instructions: the layout of shared memory, a block's share of an instruction,
// and tagged words.
#pragma once

#include "backends/cuda/attention/key_states.h"
#include "backends/cuda/decode/megakernel_program.h"
#include "backends/cuda/device/lane_moves.h"
#include "backends/cuda/device/words.h"

namespace genesis::cuda {

using Element = __nv_bfloat16;  // type of every vector, and of weights that are not quantized

inline constexpr int kMegakernelThreads =
    kConsumerWarps * kLanes;                            // the consumers; one more warp feeds the ring
inline constexpr int kPack = 8;                         // elements of 16 bytes
inline constexpr int kBlockBytes = 64;                  // bytes of a weight row that four lanes take at once
inline constexpr int kChunks = 32;                      // most chunks in the ring
inline constexpr int kChunkRows = 16, kPassChunks = 6;  // chunks whose sums are finished together
inline constexpr int kInstructionStages = 3;  // current, next, and one that a late warp may still read
inline constexpr int kMaxHeadSize = 128, kMaxAttentionSplits = 11;
inline constexpr int kMinSharedBytes = 200 << 10;

struct MegakernelShared {
  Instruction instructions[kInstructionStages];
  uint4 zeros;
  union {
    float sums[2]
              [kPassChunks * kConsumerWarps * kChunkRows];  // [chunk][slice of k][row]; two passes alternate
    float of_split[kMaxAttentionSplits][kMaxHeadSize + 4];  // attention: other blocks' states
  };
  float squares[2][kConsumerWarps];  // sums of x squared; two instructions alternate
  float cosines[kMaxHeadSize / 2], sines[kMaxHeadSize / 2];
  float of_warp[kConsumerWarps][kMaxHeadSize + 4];
  uint64_t full[kChunks], empty[kChunks];
  uint32_t at[kChunks],
      takes[kChunks];         // in bytes: a chunk's offset in the ring, and the space it takes
  float factors[kMaxChosen];  // the factors of the experts that the producer chose last
  int routed;                 // the number of the instruction that `factors` belong to
};

// The split of rows of a product's weights along k. A row consists of blocks of kBlockBytes with their scales; it is
// split into ranges of whole blocks whose scales are a multiple of 16 bytes, the unit of a copy.
struct DepthRanges {
  int log_ranges, blocks, grain;  // a range is a multiple of `grain` blocks
  int scale_bytes;                // per block; 0: weights have none
  bool pairs = false;  // scales of a row are no multiple of 16 bytes: copy those of two rows together

  __host__ __device__ DepthRanges(WeightFormat format, int k, int log_ranges) : log_ranges(log_ranges) {
    const bool four_bits = has_four_bits(format);
    scale_bytes = format == WeightFormat::kPlain ? 0 : four_bits ? 8 : 4;
    blocks = (four_bits ? k / 2 : scale_bytes > 0 ? k : 2 * k) / kBlockBytes;
    grain = log_ranges > 0 && scale_bytes > 0 ? 16 / scale_bytes : 1;
    pairs = blocks * scale_bytes % 16 != 0;
  }
  // Returns the first block of range i of 1 << log ranges.
  __host__ __device__ int begin_of(int i, int log) const { return (i * (blocks / grain) >> log) * grain; }
  __host__ __device__ int most_blocks() const {
    return ((blocks / grain + (1 << log_ranges) - 1) >> log_ranges) * grain;
  }
  // Bytes from a row of a chunk in the ring to the next. Neighboring rows start 16 of the 32 banks apart: otherwise
  // reading eight of them at once would take twice as long. Scales of eight rows are in different banks, too.
  __host__ __device__ int row_bytes() const {
    const int bytes = most_blocks() * kBlockBytes;
    return bytes % (2 * kBlockBytes) == 0 ? bytes + kBlockBytes : bytes;
  }
  __host__ __device__ int scale_row_bytes() const {
    const int bytes = most_blocks() * scale_bytes;
    return scale_bytes == 0 || pairs || bytes % 32 != 0 ? bytes : bytes + 16;
  }
};

// A block's share of an instruction, and the addresses of its weights.
struct BlockShare {
  const void *weight[Instruction::kMaxLayers], *scales[Instruction::kMaxLayers];
  int32_t first[Instruction::kMaxLayers];
  WeightFormat format;
  int32_t k, layers, swiglu, log_ranges, ahead, first_unit = 0, end_unit = 0;  // no unit: nothing to do
  int32_t row_bytes = 0, scale_row_bytes = 0;                                  // from row to row in the ring
  int32_t head = -1, split = 0;                                                // for attention
  int32_t chosen, expert_rows, weighs, whole;                                  // for mixtures

  __device__ explicit BlockShare(const Instruction& s)
      : format(s.format),
        k(s.k),
        layers(s.layers),
        swiglu(s.swiglu),
        log_ranges(s.log_ranges),
        ahead(s.ahead),
        chosen(s.chosen),
        expert_rows(s.expert_rows),
        weighs(s.weighs),
        whole(s.whole) {
    const int blocks = static_cast<int>(gridDim.x), block = (static_cast<int>(blockIdx.x) + s.shift) % blocks;
    for (int i = 0; i < Instruction::kMaxLayers; ++i)
      weight[i] = s.layer[i].weight, scales[i] = s.layer[i].scales, first[i] = s.layer[i].first;
    if (s.kind == Instruction::kProduct) {
      first_unit = static_cast<int>(int64_t{block} * s.units / blocks);
      end_unit = static_cast<int>((int64_t{block} + 1) * s.units / blocks);
      row_bytes = whole ? ranges().most_blocks() * kBlockBytes : ranges().row_bytes();
      scale_row_bytes = whole ? ranges().most_blocks() * ranges().scale_bytes : ranges().scale_row_bytes();
    } else if (const int each = blocks / s.heads; block / each < s.heads && block % each < s.splits) {
      head = block / each;
      split = block % each;
    }
  }

  __device__ DepthRanges ranges() const { return {format, k, log_ranges}; }
  // Returns the blocks of a row of weights in memory: where the ranges are experts, each has a row of its own.
  __device__ int blocks_of_row(const DepthRanges& of) const {
    return weighs ? of.blocks >> log_ranges : of.blocks;
  }

  // Returns row i of a chunk that starts with output `row`, or the row's scales. A chunk of a swiglu has its outputs'
  // rows of gate, then those of up. Lane j of the warp has `expert` j of the chosen ones; all lanes call it.
  __device__ const char* weight_row(int row, int i, int outputs, bool of_scales, int64_t bytes_of_row,
                                    int expert) const {
    int at = row + i, which = 0;
    if (swiglu) {
      if (i >= outputs) which = 1, at -= outputs;
      if (chosen > 0) {
        const int choice = at / expert_rows;
        at += (from_lane(expert, choice) - choice) * expert_rows;
      }
    } else {
      int begin = 0;
#pragma unroll
      for (int l = 1; l < Instruction::kMaxLayers; ++l)
        if (l < layers && row + i >= first[l]) which = l, begin = first[l];
      at -= begin;
    }
    return static_cast<const char*>(of_scales ? scales[which] : weight[which]) + at * bytes_of_row;
  }
};

// Returns how many rows the lane copies at once, from its own on: those that follow it in memory. 0: a lane ahead copies its row.
// All lanes of the producer call it; `asks` says which have a row, of weights up to lane kChunkRows, behind it of scales.
__device__ __forceinline__ int rows_at_once(const char* from, bool asks, int64_t bytes_of_row) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const auto at = reinterpret_cast<uint64_t>(from), ahead = from_below(at);
  const bool follows = lane % kChunkRows != 0 && at == ahead + static_cast<uint64_t>(bytes_of_row);
  const uint32_t ask = __ballot_sync(~0u, asks), ends = ~ask | __ballot_sync(~0u, asks && !follows);
  if (!asks || follows) return 0;
  const uint32_t behind = lane + 1 < kLanes ? ends >> (lane + 1) : 0;
  return behind != 0 ? __ffs(static_cast<int>(behind)) : kLanes - lane;
}

// Shared memory after MegakernelShared: one BlockShare for each instruction, x, and the ring.
struct SharedLayout {
  BlockShare* shares;
  unsigned char *vector, *ring;

  __host__ __device__ SharedLayout(const MegakernelProgram& p, unsigned char* memory) {
    const auto up = [](int64_t bytes) { return (bytes + 127) / 128 * 128; };
    shares = reinterpret_cast<BlockShare*>(memory + up(sizeof(MegakernelShared)));
    vector = memory + up(sizeof(MegakernelShared)) + up(p.count * int64_t{sizeof(BlockShare)});
    ring = vector + up(p.vector_bytes);
  }
};

// The consumers' state of a run.
struct MegakernelRun {
  uint32_t tags = 0;          // plus an instruction's tag: the tag of its words
  int start = 0;              // the new token's position
  int instruction = 0;        // its number in the program
  uint32_t chunk = 0;         // the next chunk of the ring to be used
  int sums = 0, squares = 0;  // index of the buffer to use next, 0 or 1
};

__device__ __forceinline__ void sync_consumers() {
  __syncwarp();
  asm volatile("bar.sync 1, %0;" ::"n"(kMegakernelThreads) : "memory");
}

// Loads the next instruction while the current one is computed: into registers when that one begins, and by put()
// into a stage of shared memory before one of its barriers, which makes it visible. The stage held the instruction
// two before the current one; no thread still reads it, because the instruction in between had a barrier.
class NextInstruction {
 public:
  __device__ NextInstruction(const MegakernelProgram& program, MegakernelShared& shared, int i)
      : lane_(static_cast<int>(threadIdx.x) - (kMegakernelThreads - kLanes)) {
    there_ = i < program.count && lane_ >= 0 && lane_ < kWords;
    if (!there_) return;
    words_ = reinterpret_cast<const uint4*>(program.instructions + i)[lane_];
    to_ = reinterpret_cast<uint4*>(&shared.instructions[i % kInstructionStages]) + lane_;
  }
  __device__ void put() const {
    if (there_) *to_ = words_;
  }

 private:
  static constexpr int kWords = sizeof(Instruction) / sizeof(uint4);
  static_assert(kWords <= kLanes);
  int lane_;
  bool there_ = false;
  uint4 words_;
  uint4* to_ = nullptr;
};

// Loads two tagged words. The loads are volatile, so they come from the L2 cache every time. Each word is one access
// of 8 bytes, so a reader sees both value and tag or neither.
__device__ __forceinline__ uint4 load_words(const TaggedWord* at) {
  uint64_t first, second;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(at) : "memory");
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32), static_cast<uint32_t>(second),
          static_cast<uint32_t>(second >> 32)};
}
__device__ __forceinline__ TaggedWord load_word(const TaggedWord* at) {
  uint64_t word;
  asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
  return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
}
__device__ __forceinline__ void store_word(TaggedWord* at, uint32_t value, uint32_t tag) {
  asm volatile("st.volatile.global.u64 [%0], %1;" ::"l"(at), "l"(uint64_t{tag} << 32 | value) : "memory");
}

__device__ __forceinline__ float low_of(uint32_t pair) { return genesis::cuda::low_of<Element>(pair); }
__device__ __forceinline__ float high_of(uint32_t pair) { return genesis::cuda::high_of<Element>(pair); }
__device__ __forceinline__ uint32_t pair_of(float low, float high) {
  return genesis::cuda::pair_of<Element>(low, high);
}

// Rounds both numbers, and returns the rounding errors in `rest`.
__device__ __forceinline__ void split_pair(float low, float high, uint32_t& rounded, uint32_t& rest) {
  rounded = pair_of(low, high);
  rest = pair_of(low - low_of(rounded), high - high_of(rounded));
}

// Reads elements 4 i to 4 i + 3 of a vector as two pairs, for N values of i that are `step` apart and below `end`.
// Waits until they have arrived.
template <int N>
__device__ __forceinline__ void read_fours(const VectorOperand& v, uint32_t tags, int i0, int step, int end,
                                           uint2 (&fours)[N]) {
  if (!v.words) {
#pragma unroll
    for (int u = 0; u < N; ++u)
      if (i0 + u * step < end) fours[u] = static_cast<const uint2*>(v.memory)[i0 + u * step];
    return;
  }
  const uint32_t tag = tags + v.tag;
  uint4 words[N];
  bool all;
  do {
    all = true;
#pragma unroll
    for (int u = 0; u < N; ++u)
      if (i0 + u * step < end) words[u] = load_words(v.words + 2 * (i0 + u * step));
#pragma unroll
    for (int u = 0; u < N; ++u)
      if (i0 + u * step < end) all = all && words[u].y == tag && words[u].w == tag;
  } while (!all);
#pragma unroll
  for (int u = 0; u < N; ++u)
    if (i0 + u * step < end) fours[u] = {words[u].x, words[u].z};
}

}  // namespace genesis::cuda
