// Brings the terms of a convolution's tile into shared memory, for few_tiles.cu: stages of kDepth terms of the windows of kRows
// positions and of the weights of kColumns channels, several stages ahead of their use.
#pragma once

#include "backends/cuda/convolution/window_epilogue.h"
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/tensor_core.h"
#include "backends/cuda/runtime/launch.h"

#ifdef __CUDACC__

namespace genesis::cuda::few_tiles {

// Two groups of four warps share the terms of a block: a scheduler with one warp waits for each of its instructions.
constexpr int kGroups = 2, kGroup = 128, kBlock = kGroups * kGroup;
constexpr int kDepth = 64, kPacks = kDepth / 8;  // terms of a stage, and packs of 16 bytes
constexpr int kRowsAtOnce = kGroup / kPacks;     // rows of a stage that the threads of a group load at once

template <int rows, int columns>
struct Sizes {
  static constexpr int kRows = rows, kColumns = columns,
                       kStages = rows + columns > 96   ? 3
                                 : rows + columns > 64 ? 4
                                                       : 5;
  static constexpr int kRowTiles = rows / 32, kEights = columns / 16;  // products of a warp
  static constexpr int kRowBytes = rows * kDepth * 2, kStageBytes = kRowBytes + columns * kDepth * 2;
  static constexpr int kPitch = columns + 4;  // a row of sums; its columns then lie in different banks
  static constexpr int kMaxSharedBytes = kGroups * kStages * kStageBytes, kSumBytes = rows * kPitch * 4;
  static_assert(kGroups * kSumBytes <= kMaxSharedBytes);

  // Returns the bytes of a group that has `stages` stages: fewer than kStages need not all their memory.
  static int group_bytes(int64_t stages) {
    const int64_t held = std::min<int64_t>(kStages, stages) * kStageBytes;
    return static_cast<int>(std::max<int64_t>((kSumBytes + 127) / 128 * 128, held));
  }
};

struct TapAxis {
  int stride, dilation, begin;
};

// The block's tile, and its part of the terms.
struct TileCell {
  int row, column, part;
};

template <class T>
struct Problem {
  const Words *x, *weight;  // [images, height, width, packs], [out, taps, packs]
  uint2* y;                 // [positions, out]
  const uint2* addend;
  ChannelNumbers<T> scale, bias;
  ConvolutionActivation activation;
  int positions, out;    // positions of all images, and output channels
  int packs, all_packs;  // packs of the input channels, and of all taps
  int height, width, taps_x;
  TapAxis y_axis, x_axis;
  Divisor by_image, by_line, by_packs, by_taps, by_row_tiles;
  int parts;  // blocks of a cluster
  int group_bytes;
  bool weight_is_independent;

  // Blocks with the same weights follow each other.
  template <class S>
  __device__ __forceinline__ TileCell cell_of_block() const {
    const auto part = static_cast<int>(blockIdx.x) % parts;
    const auto tile = blockIdx.x / static_cast<unsigned>(parts);
    const uint32_t column = by_row_tiles.quotient(tile);
    return {static_cast<int>(tile - column * by_row_tiles.size) * S::kRows,
            static_cast<int>(column) * S::kColumns, part};
  }
};

// A pack of the terms, which a thread moves from stage to stage.
struct TermPack {
  int pack, channel, tap_y, tap_x;  // its number among all packs, and among those of a tap

  template <class T>
  __device__ __forceinline__ TermPack(const Problem<T>& p, int first) : pack(first) {
    const uint32_t tap = p.by_packs.quotient(static_cast<uint32_t>(first)), line = p.by_taps.quotient(tap);
    channel = first - static_cast<int>(tap) * p.packs;
    tap_y = static_cast<int>(line), tap_x = static_cast<int>(tap - line * p.by_taps.size);
  }
  template <class T>
  __device__ __forceinline__ void move(const Problem<T>& p) {
    pack += kPacks, channel += kPacks;
    while (channel >= p.packs) {
      channel -= p.packs;
      if (++tap_x == p.taps_x) tap_x = 0, ++tap_y;
    }
  }
};

// The stages of a group of the block's threads.
template <class T, class S>
struct Feed {
  static constexpr int kRowLoads = S::kRows / kRowsAtOnce, kColumnLoads = S::kColumns / kRowsAtOnce;
  static constexpr uint32_t kLoadBytes = kRowsAtOnce * kDepth * 2;  // between the loads of a thread
  const Problem<T>& p;
  const uint32_t shared, own;  // the group's memory, and the thread's first pack in a stage
  const int part;              // the group's part of the terms
  int pack, count;             // the thread's first pack, and the group's stages
  int first[kRowLoads], top[kRowLoads], left[kRowLoads];  // pixels with which the windows begin
  const Words* weights;                                   // the thread's first row of weights
  int columns;                                            // rows of weights from there on
  TermPack terms;

  __device__ __forceinline__ Feed(const Problem<T>& problem, const TileCell& cell, int group, uint32_t memory)
      : p(problem),
        shared(memory),
        own(swizzle_128(own_row(), own_pack())),
        part(cell.part * kGroups + group),
        pack(first_of(problem, part) * kPacks + own_pack()),
        count(first_of(problem, part + 1) - first_of(problem, part)),
        terms(problem, pack) {
    columns = p.out - cell.column - own_row();
    weights = p.weight + int64_t{cell.column + own_row()} * p.all_packs;
#pragma unroll
    for (int i = 0; i < kRowLoads; ++i) find_window(i, cell.row + own_row() + i * kRowsAtOnce);
  }
  __device__ __forceinline__ static int own_row() { return static_cast<int>(threadIdx.x) % kGroup / kPacks; }
  __device__ __forceinline__ static int own_pack() { return static_cast<int>(threadIdx.x) % kPacks; }
  __device__ __forceinline__ static int first_of(const Problem<T>& p, int part) {
    return (p.all_packs + kPacks - 1) / kPacks * part / (p.parts * kGroups);
  }
  // The windows of rows behind the last position lie outside of the image.
  __device__ __forceinline__ void find_window(int i, int position) {
    const bool is_there = position < p.positions;
    const uint32_t at = is_there ? static_cast<uint32_t>(position) : 0, picture = p.by_image.quotient(at),
                   inside = at - picture * p.by_image.size, line = p.by_line.quotient(inside);
    top[i] = static_cast<int>(line) * p.y_axis.stride - p.y_axis.begin;
    left[i] = static_cast<int>(inside - line * p.by_line.size) * p.x_axis.stride - p.x_axis.begin;
    first[i] = (static_cast<int>(picture) * p.height + top[i]) * p.width + left[i];
    if (!is_there) top[i] = -(1 << 28);
  }
  __device__ __forceinline__ uint32_t stage(int i) const { return shared + i % S::kStages * S::kStageBytes; }

  __device__ __forceinline__ void ask_weights(int i) const {
    const int at = pack + i * kPacks;
    const Words* from = weights + at;
    const int there = at < p.all_packs ? columns : 0;
#pragma unroll
    for (int j = 0; j < kColumnLoads; ++j) {
      const bool is_there = j * kRowsAtOnce < there;
      copy_or_zero(stage(i) + S::kRowBytes + own + j * kLoadBytes,
                   is_there ? from + int64_t{j * kRowsAtOnce} * p.all_packs : p.weight, is_there);
    }
  }
  __device__ __forceinline__ void ask_rows(int i) {
    const int down = terms.tap_y * p.y_axis.dilation, right = terms.tap_x * p.x_axis.dilation,
              moved = down * p.width + right;
    const auto height = terms.pack < p.all_packs ? static_cast<unsigned>(p.height) : 0u,
               width = static_cast<unsigned>(p.width);
    const Words* from = p.x + terms.channel;
#pragma unroll
    for (int j = 0; j < kRowLoads; ++j) {
      const bool is_there =
          static_cast<unsigned>(top[j] + down) < height && static_cast<unsigned>(left[j] + right) < width;
      copy_or_zero(stage(i) + own + j * kLoadBytes,
                   is_there ? from + int64_t{first[j] + moved} * p.packs : p.x, is_there);
    }
    terms.move(p);
  }
  // The stages before the loop: weights may be asked for before x is there.
  __device__ __forceinline__ void ask_first_weights() const {
#pragma unroll
    for (int i = 0; i < S::kStages - 1; ++i)
      if (i < count) ask_weights(i);
  }
  __device__ __forceinline__ void ask_first_rows() {
#pragma unroll
    for (int i = 0; i < S::kStages - 1; ++i) {
      if (i < count) ask_rows(i);
      end_batch();
    }
  }
  __device__ __forceinline__ void ask(int i) {
    if (i < count) ask_weights(i), ask_rows(i);
    end_batch();
  }
};

}  // namespace genesis::cuda::few_tiles

#endif
