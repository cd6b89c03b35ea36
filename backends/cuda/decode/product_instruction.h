// A product of a megakernel: the block's rows of the weights times x, as they arrive in the ring. bf16 weights go
// through the tensor cores; x is only one row of their operand, but this still takes the fewest instructions.
// Quantized weights are multiplied with x in bytes. Each warp has a slice of k; the warps' sums are added in order.
#pragma once

#include "backends/cuda/decode/megakernel_kit.h"
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/byte_product.h"
#include "backends/cuda/device/swiglu_formula.h"

namespace genesis::cuda {

// If there is a norm, x is first multiplied by the norm's weight and kept as two bf16 numbers: the rounded product
// and its rounding error. So it is if the elements of each chosen expert are multiplied by the expert's factor.

struct NoGain {
  static constexpr bool kScales = false;
};
// The norm's weight; null: there is none, and x is taken as it is.
struct NormGain {
  static constexpr bool kScales = true;
  const uint2* gains;

  __device__ bool is_there() const { return gains; }
  __device__ float4 of_four(int i) const {
    const uint2 gain = gains[i];
    return {low_of(gain.x), high_of(gain.x), low_of(gain.y), high_of(gain.y)};
  }
};
struct ExpertGain {
  static constexpr bool kScales = true;
  const float* factors;
  int fours_of_each;

  __device__ bool is_there() const { return true; }
  __device__ float4 of_four(int i) const {
    const float factor = factors[i / fours_of_each];
    return {factor, factor, factor, factor};
  }
};

// Brings x [k] into shared memory; with gains also, after it, the rounding errors, and the sum of squares.
template <int N, class Gain>
__device__ __forceinline__ void bring_x(const VectorOperand& x, const Gain& gains, int fours, uint2* to,
                                        uint32_t tags, float* squares_of_warp) {
  const VectorOperand from = x;
  float squares = 0;
#pragma unroll 1
  for (int i0 = threadIdx.x; i0 < fours; i0 += N * kMegakernelThreads) {
    uint2 four[N];
    read_fours(from, tags, i0, kMegakernelThreads, fours, four);
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int i = i0 + u * kMegakernelThreads;
      if (i >= fours) break;
      if constexpr (Gain::kScales) {
        const float4 gain = gains.of_four(i);
        const float a = low_of(four[u].x), b = high_of(four[u].x), c = low_of(four[u].y),
                    d = high_of(four[u].y);
        squares = fmaf(a, a, fmaf(b, b, fmaf(c, c, fmaf(d, d, squares))));
        uint2 rest;
        split_pair(a * gain.x, b * gain.y, four[u].x, rest.x);
        split_pair(c * gain.z, d * gain.w, four[u].y, rest.y);
        to[fours + i] = rest;
      }
      to[i] = four[u];
    }
  }
  if constexpr (Gain::kScales) {
    squares = warp_sum(squares);
    if (threadIdx.x % kLanes == 0) squares_of_warp[threadIdx.x / kLanes] = squares;
  }
}

// Brings x [k], times the gains if there are some, as bytes into shared memory, followed by their ByteBlocks;
// also the sum of squares. Eight lanes share a block; the number of elements is such that all lanes of a warp have
// some, or none.
template <int N, class Gain>
__device__ __forceinline__ void bring_x_in_bytes(const VectorOperand& x, const Gain& gains, int fours,
                                                 unsigned char* to, uint32_t tags, float* squares_of_warp) {
  const VectorOperand from = x;
  auto* bytes = reinterpret_cast<uint32_t*>(to);
  auto* blocks = reinterpret_cast<ByteBlock*>(to + 4 * fours);
  float squares = 0;
#pragma unroll 1
  for (int i0 = threadIdx.x; i0 < fours; i0 += N * kMegakernelThreads) {
    uint2 four[N];
    read_fours(from, tags, i0, kMegakernelThreads, fours, four);
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int i = i0 + u * kMegakernelThreads;
      if (i >= fours) break;
      float values[4] = {low_of(four[u].x), high_of(four[u].x), low_of(four[u].y), high_of(four[u].y)};
      if (gains.is_there()) {
        const float4 gain = gains.of_four(i);
        const float gain_of[4] = {gain.x, gain.y, gain.z, gain.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          squares = fmaf(values[e], values[e], squares);
          values[e] *= gain_of[e];
        }
      }
      uint32_t word[1];
      const ByteBlock block = bytes_of_block(values, word);
      bytes[i] = word[0];
      if (i % 8 == 0) blocks[i / 8] = block;
    }
  }
  squares = warp_sum(squares);
  if (threadIdx.x % kLanes == 0) squares_of_warp[threadIdx.x / kLanes] = squares;
}

// Brings the result of a mixture's first product times the factors, which the producer has written.
__device__ void bring_weighed_x(const Instruction& s, unsigned char* vector, MegakernelShared& shared,
                                const MegakernelRun& run, float* squares_of_warp) {
  constexpr int kMany = 3;
  while (*const_cast<const volatile int*>(&shared.routed) < run.instruction) {
  }
  __threadfence_block();
  // Waits for a thread's last word first: if all threads asked for all of their words again and again, none would arrive in time.
  const int fours = s.k / 4, thread = static_cast<int>(threadIdx.x);
  if (thread < fours) {
    const int last = thread + (fours - 1 - thread) / kMegakernelThreads * kMegakernelThreads;
    while (load_word(s.x.words + 2 * last).y != run.tags + s.x.tag) {
    }
  }
  __syncwarp();
  const ExpertGain gains{shared.factors, fours / s.chosen};
  if (s.format != WeightFormat::kPlain)
    return bring_x_in_bytes<kMany>(s.x, gains, fours, vector, run.tags, squares_of_warp);
  bring_x<kMany>(s.x, gains, fours, reinterpret_cast<uint2*>(vector), run.tags, squares_of_warp);
}

// Uses one round if the threads suffice for it: it has fewer instructions, and these are fetched again in every step.
__device__ void bring_x(const Instruction& s, unsigned char* vector, MegakernelShared& shared,
                        const MegakernelRun& run, float* squares_of_warp) {
  if (s.weighs) return bring_weighed_x(s, vector, shared, run, squares_of_warp);
  constexpr int kMany = 5;
  const uint32_t tags = run.tags;
  const int fours = s.k / 4;
  const NormGain gains{static_cast<const uint2*>(s.norm)};
  auto* to = reinterpret_cast<uint2*>(vector);
  const bool once = fours <= kMegakernelThreads;
  if (s.format != WeightFormat::kPlain)
    return once ? bring_x_in_bytes<1>(s.x, gains, fours, vector, tags, squares_of_warp)
                : bring_x_in_bytes<kMany>(s.x, gains, fours, vector, tags, squares_of_warp);
  if (s.norm && once) return bring_x<1>(s.x, gains, fours, to, tags, squares_of_warp);
  if (s.norm) return bring_x<kMany>(s.x, gains, fours, to, tags, squares_of_warp);
  if (once) return bring_x<1>(s.x, NoGain{}, fours, to, tags, squares_of_warp);
  bring_x<kMany>(s.x, NoGain{}, fours, to, tags, squares_of_warp);
}

// Computes sums += w x over 16 elements of k; w has 16 rows, x 8 columns.
__device__ __forceinline__ void multiply_16(float (&sums)[4], uint32_t w0, uint32_t w1, uint32_t w2,
                                            uint32_t w3, uint32_t x0, uint32_t x1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(w0), "r"(w1), "r"(w2), "r"(w3), "r"(x0), "r"(x1));
}

// The addresses that block 0 of k would have in the ring for a lane's two rows of weights, and those of their scales.
struct LaneRows {
  const unsigned char *low, *high, *low_scales, *high_scales;
};

// One lane's operands: four lanes share rows `row` and row + 8 of w. Column 0 of x is x, column 1 its rounding
// errors, the others are zero. The order of k does not matter as long as w and x have the same, so a lane takes 16
// contiguous bytes of each.
struct ConsumerLane {
  int row, quarter;
  const unsigned char* x;  // at block 0 of k
  int step;                // bytes to the next block; 0: always zeros

  __device__ ConsumerLane(const MegakernelShared& shared, const unsigned char* vector, int k, bool has_rest) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    row = lane / 4;
    quarter = lane % 4;
    const bool reads = row == 0 || (row == 1 && has_rest);
    x = reads ? vector + row * 2 * k + quarter * 16 : reinterpret_cast<const unsigned char*>(&shared.zeros);
    step = reads ? kBlockBytes : 0;
  }

  // Multiplies blocks [begin, end) of k. Returns the sums of both rows in lanes of quarter 0.
  template <bool kBoth>
  __device__ float2 multiply(const LaneRows& w, int begin, int end) const {
    const int own = quarter * 16;
    float even[4] = {}, odd[4] = {};
#pragma unroll 4
    for (int b = begin; b < end; ++b) {
      const Words xs = *reinterpret_cast<const Words*>(x + b * step),
                  lows = *reinterpret_cast<const Words*>(w.low + own + b * kBlockBytes);
      Words highs{};
      if (kBoth) highs = *reinterpret_cast<const Words*>(w.high + own + b * kBlockBytes);
      multiply_16(even, lows.x, highs.x, lows.y, highs.y, xs.x, xs.y);
      multiply_16(odd, lows.z, highs.z, lows.w, highs.w, xs.z, xs.w);
    }
    return {(even[0] + even[1]) + (odd[0] + odd[1]), (even[2] + even[3]) + (odd[2] + odd[3])};
  }
};

// The same for quantized weights and x in bytes.
template <WeightFormat kFormat>
struct QuantizedLane {
  static constexpr int kEach = kValuesOfPack<kFormat>;  // elements of k that a lane takes of a block
  int row, quarter;
  const unsigned char* x;   // at block 0 of k
  const ByteBlock* blocks;  // starts with that of x's element 0

  __device__ QuantizedLane(const unsigned char* vector, int k) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    row = lane / 4;
    quarter = lane % 4;
    x = vector + quarter * kEach;
    blocks = reinterpret_cast<const ByteBlock*>(vector + k);
  }

  template <bool kBoth>
  __device__ float2 multiply(const LaneRows& w, int begin, int end) const {
    float2 sums{};
#pragma unroll 4
    for (int b = begin; b < end; ++b) {
      const int at = b * kBlockBytes + quarter * 16, block = (b * 4 + quarter) * kEach / int{kQuantBlock};
      Words xs[kEach / 16];
#pragma unroll
      for (int i = 0; i < kEach / 16; ++i) xs[i] = reinterpret_cast<const Words*>(x + b * 4 * kEach)[i];
      const ByteBlock of_x = blocks[block];
      const auto product = [&](const unsigned char* row, const unsigned char* scales) {
        const WeightBlock<kFormat> of_w(reinterpret_cast<const uint16_t*>(scales)[block]);
        return of_w.scale * of_x.scale *
               dot_block<kFormat>(*reinterpret_cast<const Words*>(row + at), xs, of_x, of_w);
      };
      sums.x += product(w.low, w.low_scales);
      if (kBoth) sums.y += product(w.high, w.high_scales);
    }
    return {reduce_lanes(sums.x, 4, Add()), reduce_lanes(sums.y, 4, Add())};
  }
};

// Two elements of y, which one thread finishes, with the operands of their epilogue, which are loaded before the wait
// for x.
struct InstructionResult {
  bool there = false, has_bias = false, swiglu = false, has_addend = false, wide = false;
  uint32_t bias = 0, up_bias = 0, tag = 0, addend_tag = 0;
  TaggedWord addend{};
  TaggedWord* out = nullptr;
  const TaggedWord* addend_at = nullptr;  // null: the addend came from memory
  void* y = nullptr;

  __device__ void ask(const Instruction& s, int unit, uint32_t tags) {
    there = true;
    swiglu = s.swiglu;
    wide = s.wide;
    if (s.out) out = s.out + (wide ? 2 * unit : unit);
    tag = tags + s.tag;
    if (s.addend.words) {
      addend_at = s.addend.words + unit;
      addend = load_word(addend_at);
      addend_tag = tags + s.addend.tag;
    } else if (s.addend.memory) {
      addend.x = static_cast<const uint32_t*>(s.addend.memory)[unit];
    }
    has_addend = s.addend.words || s.addend.memory;
    int which = 0;
    while (!swiglu && which + 1 < s.layers && 2 * unit >= s.layer[which + 1].first) ++which;
    const LayerOperand& layer = s.layer[which];
    const int of_layer = unit - layer.first / 2;
    if (layer.y) y = static_cast<char*>(layer.y) + of_layer * (wide ? sizeof(float2) : sizeof(uint32_t));
    has_bias = layer.bias;
    if (has_bias) bias = static_cast<const uint32_t*>(layer.bias)[of_layer];
    if (has_bias && swiglu) up_bias = static_cast<const uint32_t*>(s.layer[1].bias)[unit];
  }

  // Takes the sums of two rows; for a swiglu `sums` are gate's and `up` are up's.
  __device__ void finish(float2 sums, float2 up) {
    if (has_bias) sums.x += low_of(bias), sums.y += high_of(bias);
    if (swiglu) {
      if (has_bias) up.x += low_of(up_bias), up.y += high_of(up_bias);
      const uint32_t gates = pair_of(sums.x, sums.y), ups = pair_of(up.x, up.y);  // rounded like two products
      sums = {gated<Element>(low_of(gates), low_of(ups)), gated<Element>(high_of(gates), high_of(ups))};
    }
    if (addend_at)
      while (addend.y != addend_tag) addend = load_word(addend_at);
    if (has_addend) sums.x += low_of(addend.x), sums.y += high_of(addend.x);
    const uint32_t both = pair_of(sums.x, sums.y);
    if (out) store_word(out, wide ? __float_as_uint(sums.x) : both, tag);
    if (out && wide) store_word(out + 1, __float_as_uint(sums.y), tag);
    if (!y) return;
    if (wide)
      *static_cast<float2*>(y) = sums;
    else
      *static_cast<uint32_t*>(y) = both;
  }
};

// Adds the slices of a chunk's row, in order.
__device__ __forceinline__ float2 add_slices(const float* sums, int slices) {
  float2 sum{};
#pragma unroll
  for (int i = 0; i < kConsumerWarps; ++i)
    if (i < slices) {
      const float2 share = *reinterpret_cast<const float2*>(sums + i * kChunkRows);
      sum.x += share.x;
      sum.y += share.y;
    }
  return sum;
}

// A warp's share of the chunks. Groups of warps take one chunk each at a time. A warp of a group has a slice of k,
// blocks [begin, end), which arrives with range `range` of the chunk.
struct WarpSlice {
  int slices, groups, slice, group, begin, end, log_ranges, range, range_begin;

  __device__ __forceinline__ WarpSlice(const DepthRanges& ranges, int log) : log_ranges(ranges.log_ranges) {
    const int warp = static_cast<int>(threadIdx.x) / kLanes;
    slices = 1 << log, groups = kConsumerWarps >> log;
    slice = warp & (slices - 1), group = warp >> log;
    begin = ranges.begin_of(slice, log), end = ranges.begin_of(slice + 1, log);
    range = slice >> (log - log_ranges), range_begin = ranges.begin_of(range, log_ranges);
  }
};

// The layout of a chunk's rows in the ring.
struct ChunkRows {
  bool swiglu;
  int log_units;  // log2 of a chunk's units
  int row_bytes, scale_row_bytes, block_scale_bytes;

  // Returns the row addresses of lanes with row `row`, in a chunk with `outputs` outputs. Missing rows repeat the
  // last one.
  __device__ __forceinline__ LaneRows of_lane(const unsigned char* chunk, int row, int outputs,
                                              int range_begin) const {
    const int low = min(row, outputs - 1),
              high = swiglu ? outputs + low : min(row + kChunkRows / 2, outputs - 1);
    const unsigned char *quants = chunk - range_begin * kBlockBytes,
                        *scales =
                            chunk + (swiglu ? 2 : 1) * outputs * row_bytes - range_begin * block_scale_bytes;
    return {quants + low * row_bytes, quants + high * row_bytes, scales + low * scale_row_bytes,
            scales + high * scale_row_bytes};
  }
};

// The chunks of a pass: `count` chunks with `units` units in all; the last one may have fewer than the others.
struct ProductPass {
  uint32_t first_chunk;  // in the ring
  int count, units;
  float* sums;
};

// Computes the warp's sums over the chunks of a pass.
template <class Lane>
__device__ __forceinline__ void multiply_chunks(const WarpSlice& mine, const Lane& own,
                                                MegakernelShared& shared, const unsigned char* ring,
                                                const ChunkRows& rows, const ProductPass& pass) {
#pragma unroll 1
  for (int c = mine.group; c < pass.count; c += mine.groups) {
    const uint32_t chunk = pass.first_chunk + static_cast<uint32_t>((c << mine.log_ranges) + mine.range);
    const int outputs = 2 * min(1 << rows.log_units, pass.units - (c << rows.log_units));
    wait_for_phase(&shared.full[chunk % kChunks], chunk / kChunks & 1);
    __syncwarp();
    const LaneRows w = rows.of_lane(ring + shared.at[chunk % kChunks], own.row, outputs, mine.range_begin);
    const float2 sums = rows.swiglu || outputs > kChunkRows / 2
                            ? own.template multiply<true>(w, mine.begin, mine.end)
                            : own.template multiply<false>(w, mine.begin, mine.end);
    __syncwarp();
    if (threadIdx.x % kLanes == 0)
      arrive(&shared.empty[chunk % kChunks], static_cast<uint32_t>(mine.groups << mine.log_ranges));
    if (own.quarter == 0) {
      float* to = pass.sums + (c * mine.slices + mine.slice) * kChunkRows + own.row;
      to[0] = sums.x;
      to[kChunkRows / 2] = sums.y;
    }
  }
}

// Calls multiply_chunks() with the lane type for the weights' format.
__device__ __forceinline__ void multiply_pass(WeightFormat format, const WarpSlice& mine,
                                              const ConsumerLane& plain, const unsigned char* vector, int k,
                                              MegakernelShared& shared, const unsigned char* ring,
                                              const ChunkRows& rows, const ProductPass& pass) {
  const auto with = [&](const auto& lane) { multiply_chunks(mine, lane, shared, ring, rows, pass); };
  if (format == WeightFormat::kQ8)
    with(QuantizedLane<WeightFormat::kQ8>(vector, k));
  else if (format == WeightFormat::kQ4)
    with(QuantizedLane<WeightFormat::kQ4>(vector, k));
  else if (format == WeightFormat::kQ4m)
    with(QuantizedLane<WeightFormat::kQ4m>(vector, k));
  else
    with(plain);
}

// Returns 1 / sqrt(mean of x squared + eps), from the warps' sums of squares.
__device__ __forceinline__ float inverse_rms(const float* squares, float inverse_k, float eps) {
  float total = 0;
#pragma unroll
  for (int w = 0; w < kConsumerWarps; ++w) total += squares[w];
  return rsqrtf(fmaf(total, inverse_k, eps));
}

__device__ void multiply(const Instruction& s, const BlockShare& share, MegakernelShared& shared,
                         const SharedLayout& layout, MegakernelRun& run, const NextInstruction& coming) {
  if (share.first_unit == share.end_unit) {
    coming.put();
    return sync_consumers();
  }
  const int thread = static_cast<int>(threadIdx.x);
  const DepthRanges ranges = share.ranges();
  const WarpSlice mine(ranges, s.log_slices);
  const int log_units = s.swiglu ? 2 : 3, units = share.end_unit - share.first_unit, k = s.k;
  const ChunkRows rows{s.swiglu != 0, log_units, share.row_bytes, share.scale_row_bytes, ranges.scale_bytes};
  const int chunks = (units + (1 << log_units) - 1) >> log_units;
  const bool normalizes = s.norm != nullptr, swiglu = s.swiglu;
  const WeightFormat format = share.format;
  const float inverse_k = 1 / static_cast<float>(k), eps = s.eps;
  const ConsumerLane plain(shared, layout.vector, k, normalizes || s.weighs);
  float* squares = shared.squares[run.squares];
  run.squares ^= 1;

#pragma unroll 1
  for (int c0 = 0; c0 < chunks; c0 += kPassChunks) {
    const int count = min(kPassChunks, chunks - c0), first_unit = c0 << log_units;
    InstructionResult result;
    if (const int unit = share.first_unit + first_unit + thread;
        thread < count << log_units && unit < share.end_unit)
      result.ask(s, unit, run.tags);
    if (c0 == 0) {
      bring_x(s, layout.vector, shared, run, squares);
      coming.put();
      sync_consumers();
    }
    float* sums_of_pass = shared.sums[run.sums];
    run.sums ^= 1;
    multiply_pass(format, mine, plain, layout.vector, k, shared, layout.ring, rows,
                  {run.chunk, count, units - first_unit, sums_of_pass});
    run.chunk += static_cast<uint32_t>(count << mine.log_ranges);
    sync_consumers();
    if (!result.there) continue;
    const float* of_unit = sums_of_pass + (thread >> log_units) * mine.slices * kChunkRows +
                           2 * (thread & ((1 << log_units) - 1));
    float2 y = add_slices(of_unit, mine.slices), up{};
    if (swiglu) up = add_slices(of_unit + kChunkRows / 2, mine.slices);
    const float scale = normalizes ? inverse_rms(squares, inverse_k, eps) : 1;
    result.finish({y.x * scale, y.y * scale}, {up.x * scale, up.y * scale});
  }
}

}  // namespace genesis::cuda
