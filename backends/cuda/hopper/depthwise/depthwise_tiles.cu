// Depthwise convolutions in 16 bits with the channels last: the TMA engine copies the part of x that a tile of the map needs into
// shared memory, with zeros for the padding, and the next tile's part while one is computed. A thread computes some rows and columns
// of the map for two channels, so it converts an element of x once for all windows of these that meet it.
#include "backends/cuda/hopper/convolution_tiles.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/convolution/activate_all.h"
#include "backends/cuda/convolution/depthwise.h"
#include "backends/cuda/convolution/depthwise_kit.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/hopper/image_boxes.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/runtime/chips.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace depthwise_tiles {
namespace {

constexpr int kChannels = 32;          // channels of a block
constexpr int kLanes = kChannels / 2;  // threads that compute one cell of the map: two channels each
constexpr int kCells = 16;             // cells that a block computes at the same time
constexpr int kBlock = kCells * kLanes;
constexpr int kPixelBytes = kChannels * 2;
constexpr int kMaxStages = 2;      // boxes in shared memory: one that is read, one that is copied
constexpr int kMaxBlocksEach = 3;  // blocks of a multiprocessor: 80 registers a thread

// A cell is kRows x kColumns positions of the map. Maps of networks for pictures of 224 x 224 have 7 * 2^n columns, and an odd number
// of columns puts the two cells of a warp into different banks of shared memory.
constexpr int kRows = 2, kColumns = 7;

// A tile of the map is `across` x `down` cells of `images` images. Its windows meet a box of x.
struct Tiles {
  int across = 1, down = 1, images = 1;
  int box_rows = 0, box_columns = 0, stages = 1;
  int count = 0;
  Divisor by_line, by_image;  // tiles of a row, and of an image

  __host__ __device__ int box_bytes() const { return images * box_rows * box_columns * kPixelBytes; }
  // TMA writes boxes at multiples of 128 bytes.
  __host__ __device__ int stage_bytes() const { return (box_bytes() + 127) / 128 * 128; }
};

template <class T>
struct Problem {
  int images, rows, columns, channels;  // sizes of the map
  int begin_y, begin_x;                 // padding ahead of x
  bool flipped;                         // the window is read from its end
  Tiles tiles;
  const T* weight;  // [channels, taps]
  T* y;
  ChannelNumbers<T> scale, bias;
  const T* addend;
  ConvolutionActivation activation;
  bool weight_is_independent;  // see launch.h
};

#ifdef GENESIS_HOPPER

// Writes the weights of the block's channels as [tap][channel].
template <int kTaps, class T>
__device__ __forceinline__ void read_weights(const Problem<T>& p, int first, float* shared) {
  const int count = min(kChannels, p.channels - first) * kTaps;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlock) {
    const int channel = i / kTaps, tap = i % kTaps;
    shared[(p.flipped ? kTaps - 1 - tap : tap) * kChannels + channel] =
        widen(p.weight[int64_t{first} * kTaps + i]);
  }
}

// Adds the products of a cell; `pixels` are the two channels of its first element of x.
template <class T, int taps, int stride>
__device__ __forceinline__ void add_windows(const uint32_t* pixels, int line_words, const float2* weights,
                                            float2 (&sums)[kRows][kColumns]) {
  constexpr int kDown = (kRows - 1) * stride + taps, kAcross = (kColumns - 1) * stride + taps;
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
    float2 x[kAcross];
#pragma unroll
    for (int e = 0; e < kAcross; ++e) {
      const uint32_t pair = pixels[e * kLanes];
      x[e] = make_float2(low_of<T>(pair), high_of<T>(pair));
    }
    pixels += line_words;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int tap = i - r * stride;
      if (tap < 0 || tap >= taps) continue;
#pragma unroll
      for (int t = 0; t < taps; ++t) {
        const float2 weight = weights[(tap * taps + t) * kLanes];
#pragma unroll
        for (int o = 0; o < kColumns; ++o) {
          sums[r][o].x += x[o * stride + t].x * weight.x;
          sums[r][o].y += x[o * stride + t].y * weight.y;
        }
      }
    }
  }
}

template <class F>
__device__ __forceinline__ void for_each_sum(float2 (&sums)[kRows][kColumns], const F& f) {
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int o = 0; o < kColumns; ++o) f(sums[r][o], r, o);
}

// The first position of a cell of the map.
struct Cell {
  int image, y, x;
};

// Applies the epilogue, and writes the positions of the cell that are in the map. `scale` and `bias` are those of the two channels.
template <class T>
__device__ __forceinline__ void write_cell(const Problem<T>& p, const Cell& cell, int channel, float2 scale,
                                           float2 bias, float2 (&sums)[kRows][kColumns]) {
  const int rows = p.rows - cell.y, columns = p.columns - cell.x, line = p.columns * p.channels;
  const int64_t first = ((int64_t{cell.image} * p.rows + cell.y) * p.columns + cell.x) * p.channels + channel;
  for_each_sum(sums, [&](float2& sum, int r, int o) {
    sum = make_float2(sum.x * scale.x + bias.x, sum.y * scale.y + bias.y);
    if (!p.addend || r >= rows || o >= columns) return;
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(p.addend + first + r * line + o * p.channels);
    sum.x += low_of<T>(pair), sum.y += high_of<T>(pair);
  });
  activate_all(p.activation, [&](const auto& activate) {
    for_each_sum(sums, [&](float2& sum, int, int) { activate(sum.x), activate(sum.y); });
  });
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= rows) break;
    T* to = p.y + first + r * line;
#pragma unroll
    for (int o = 0; o < kColumns; ++o)
      if (o < columns)
        *reinterpret_cast<uint32_t*>(to + o * p.channels) = pair_of<T>(sums[r][o].x, sums[r][o].y);
  }
}

// The tile's first cell.
__device__ __forceinline__ Cell first_cell(const Tiles& tiles, int i) {
  const auto image = static_cast<int>(tiles.by_image.quotient(static_cast<uint32_t>(i)));
  const int in_image = i - image * static_cast<int>(tiles.by_image.size);
  const auto line = static_cast<int>(tiles.by_line.quotient(static_cast<uint32_t>(in_image)));
  const int across = in_image - line * static_cast<int>(tiles.by_line.size);
  return {image * tiles.images, line * tiles.down * kRows, across * tiles.across * kColumns};
}

template <int stride, class T>
__device__ __forceinline__ void copy_box_of(const CUtensorMap* x, const Problem<T>& p, int tile, int channel,
                                            uint32_t to, uint64_t* filled) {
  const Cell cell = first_cell(p.tiles, tile);
  expect_bytes(filled, static_cast<uint32_t>(p.tiles.box_bytes()));
  hopper::copy_pixels(to, x, shared_address(filled), channel, cell.x * stride - p.begin_x,
                      cell.y * stride - p.begin_y, cell.image);
}

// A thread's part of each tile: two channels of a cell, which begins `from` the tile's first position.
template <class T>
struct Part {
  const Problem<T>& p;
  int lane = static_cast<int>(threadIdx.x) % kLanes,
      channel = static_cast<int>(blockIdx.y) * kChannels + 2 * lane;
  bool has_channel = channel < p.channels;
  Cell from;
  float2 scale, bias;

  __device__ __forceinline__ explicit Part(const Problem<T>& problem)
      : p(problem), scale(pair_of_channels(p.scale, 1)), bias(pair_of_channels(p.bias, 0)) {
    const int cell = static_cast<int>(threadIdx.x) / kLanes, line = cell / p.tiles.across;
    from = {line / p.tiles.down, line % p.tiles.down * kRows, cell % p.tiles.across * kColumns};
  }
  __device__ __forceinline__ float2 pair_of_channels(const ChannelNumbers<T>& numbers,
                                                     float otherwise) const {
    return has_channel ? make_float2(numbers.at(channel, otherwise), numbers.at(channel + 1, otherwise))
                       : make_float2(0, 0);
  }
  // The first word that the thread reads of a box.
  template <int stride>
  __device__ __forceinline__ int first_word() const {
    const Tiles& tiles = p.tiles;
    const int line = from.image * tiles.box_rows + from.y * stride;
    return (line * tiles.box_columns + from.x * stride) * kLanes + lane;
  }
  __device__ __forceinline__ Cell cell_of(int tile) const {
    const Cell first = first_cell(p.tiles, tile);
    return {first.image + from.image, first.y + from.y, first.x + from.x};
  }
  // Returns whether there is anything to compute.
  __device__ __forceinline__ bool has(const Cell& cell) const {
    return has_channel && from.image < p.tiles.images && cell.image < p.images && cell.y < p.rows &&
           cell.x < p.columns;
  }
};

#endif

// Block (i, j) computes the tiles i, i + gridDim.x, ... of 32 channels.
template <class T, int taps, int stride>
__global__ void __launch_bounds__(kBlock, kMaxBlocksEach)
    depthwise_tiles_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ Problem<T> p) {
#ifdef GENESIS_HOPPER
  extern __shared__ __align__(128) unsigned char boxes[];
  __shared__ __align__(16) float weights[taps * taps * kChannels];
  __shared__ uint64_t filled[kMaxStages];
  const Tiles& tiles = p.tiles;
  const int first_channel = static_cast<int>(blockIdx.y) * kChannels, stage_bytes = tiles.stage_bytes();
  pdl_launch_dependents();
  if (p.weight_is_independent) read_weights<taps * taps>(p, first_channel, weights);
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : filled) init_barrier(&barrier, 1);
    let_copies_see_barriers();
  }
  const auto copy = [&](int tile, int stage) {
    if (threadIdx.x == 0 && tile < tiles.count)
      copy_box_of<stride>(&x, p, tile, first_channel, shared_address(boxes + stage * stage_bytes),
                          &filled[stage]);
  };
  pdl_wait();
  copy(static_cast<int>(blockIdx.x), 0);
  if (!p.weight_is_independent) read_weights<taps * taps>(p, first_channel, weights);
  const Part<T> part(p);
  const int first_word = part.template first_word<stride>(), line_words = tiles.box_columns * kLanes;
  __syncthreads();
  int stage = 0;
  uint32_t parity = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles.count; tile += static_cast<int>(gridDim.x)) {
    const int next = tile + static_cast<int>(gridDim.x);
    if (tiles.stages > 1) copy(next, 1 - stage);
    wait_for_phase(&filled[stage], parity);
    if (const Cell cell = part.cell_of(tile); part.has(cell)) {
      float2 sums[kRows][kColumns] = {};
      add_windows<T, taps, stride>(
          reinterpret_cast<const uint32_t*>(boxes + stage * stage_bytes) + first_word, line_words,
          reinterpret_cast<const float2*>(weights) + part.lane, sums);
      write_cell(p, cell, part.channel, part.scale, part.bias, sums);
    }
    __syncthreads();  // the box has been read, so the next copy may write over it
    if (tiles.stages == 1) copy(next, 0);
    if (tiles.stages > 1) stage = 1 - stage;
    if (stage == 0) parity ^= 1;
  }
#endif
}

// A plan needs the sizes of a convolution; a transposed one is a convolution by the flipped window, and has its sizes.
struct Call {
  ConvolutionShape shape;  // first, because other kernels read it
  bool transposed = false;
  WindowAxis y, x;
  Tiles tiles;
};

WindowAxis axis_of(const WindowAxis& a, bool transposed) {
  if (!transposed) return a;
  return {.size = a.positions, .positions = a.size, .taps = a.taps, .begin = a.taps - 1 - a.begin};
}

// Returns the elements of an axis that windows at `positions` meet.
int64_t elements_met(const WindowAxis& a, int64_t positions) { return (positions - 1) * a.stride + a.taps; }

constexpr int64_t kMaxBoxBytes = int64_t{72} << 10;
constexpr int64_t kOtherBytes = 8 << 10;  // a block's weights and barriers, and what the chip reserves for it

// Chooses the tiles that take the fewest pixels of x, over all of them.
Tiles tiles_of(const Call& call) {
  const int64_t down = blocks_for(call.y.positions, kRows), across = blocks_for(call.x.positions, kColumns),
                batch = call.shape.batch;
  Tiles best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t i = 1; i <= std::min<int64_t>(kCells, across); ++i)
    for (int64_t j = 1; j <= std::min(kCells / i, down); ++j) {
      const int64_t box_rows = elements_met(call.y, j * kRows),
                    box_columns = elements_met(call.x, i * kColumns),
                    images = std::min(
                        {kCells / (i * j), batch, kMaxBoxBytes / (box_rows * box_columns * kPixelBytes)});
      if (images == 0) continue;
      const int64_t line = blocks_for(across, i), lines = blocks_for(down, j),
                    count = line * lines * blocks_for(batch, images),
                    pixels = checked_mul(count, images * box_rows * box_columns);
      if (pixels >= least) continue;
      least = pixels;
      best = {.across = static_cast<int>(i),
              .down = static_cast<int>(j),
              .images = static_cast<int>(images),
              .box_rows = static_cast<int>(box_rows),
              .box_columns = static_cast<int>(box_columns),
              .count = static_cast<int>(count),
              .by_line = make_divisor(line),
              .by_image = make_divisor(line * lines)};
    }
  best.stages = 2 * best.stage_bytes() <= kMaxBoxBytes ? 2 : 1;
  return best;
}

Call call_of(const KernelQuery& query, bool transposed) {
  Call call{convolution_shape(query), transposed};
  call.y = axis_of(call.shape.windows.axis[1], transposed);
  call.x = axis_of(call.shape.windows.axis[2], transposed);
  call.tiles = tiles_of(call);
  return call;
}

template <class T>
Problem<T> problem_of(const KernelContext& c, const Call& call) {
  const ConvolutionShape& s = call.shape;
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  Problem<T> p{};
  p.images = number(s.batch), p.rows = number(call.y.positions), p.columns = number(call.x.positions);
  p.channels = number(s.groups);
  p.begin_y = number(call.y.begin), p.begin_x = number(call.x.begin);
  p.flipped = call.transposed;
  p.tiles = call.tiles;
  p.weight = c.input(1).as<const T>(), p.y = c.output().as<T>();
  p.weight_is_independent = is_independent(c, 1);
  if (call.transposed) return p;
  p.scale = channel_numbers<T>(c, s.has_scale, 2);
  p.bias = channel_numbers<T>(c, s.has_bias, s.bias_input());
  p.addend = s.has_addend ? c.input(static_cast<int>(s.addend_input())).as<const T>() : nullptr;
  p.activation = s.activation;
  return p;
}

// Returns false if the device or the driver does not take it.
template <class T, int taps, int stride>
bool launch_tiles(const KernelContext& c, const Call& call) {
  const auto kernel = depthwise_tiles_kernel<T, taps, stride>;
  const ConvolutionShape& s = call.shape;
  const Tiles& tiles = call.tiles;
  const size_t shared = static_cast<size_t>(tiles.stages * tiles.stage_bytes());
  CUtensorMap x;
  const ImagesInBoxes images{c.input(0).data, s.batch,        call.y.size,       call.x.size, s.groups,
                             tiles.images,    tiles.box_rows, tiles.box_columns, kChannels};
  if (!has_hopper_kernel(reinterpret_cast<const void*>(kernel), kMaxBoxBytes) || !make_images_map(images, x))
    return false;
  // Blocks take equally many tiles.
  const int64_t columns = blocks_for(s.groups, kChannels),
                each = std::clamp<int64_t>(
                    shared_bytes_limit() / (static_cast<int64_t>(shared) + kOtherBytes), 1, kMaxBlocksEach),
                most = std::max<int64_t>(launch_of(c).multiprocessors * each / columns, 1),
                blocks = blocks_for(tiles.count, blocks_for(tiles.count, most));
  start_with_pdl(launch_of(c), kernel, dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(columns)),
                 kBlock, shared, x, problem_of<T>(c, call));
  return true;
}

template <class T>
bool launch_type(const KernelContext& c, const Call& call) {
  const int64_t taps = call.x.taps;
  if (call.x.stride == 2) return taps == 3 ? launch_tiles<T, 3, 2>(c, call) : launch_tiles<T, 5, 2>(c, call);
  if (taps == 3) return launch_tiles<T, 3, 1>(c, call);
  return taps == 5 ? launch_tiles<T, 5, 1>(c, call) : launch_tiles<T, 7, 1>(c, call);
}

void run_tiles(const KernelContext& c) {
  const auto& call = c.prepared<Call>();
  const bool is_bf16 = call.shape.dtype == DType::bf16;
  if (aligned_to_packs(c) && (is_bf16 ? launch_type<__nv_bfloat16>(c, call) : launch_type<__half>(c, call)))
    return;
  static const KernelImpl kForward = depthwise_convolution(), kTransposed = depthwise_transposed();
  (call.transposed ? kTransposed : kForward).run(c);
}

// Fewer tiles leave multiprocessors idle, which smaller pieces of the map do not.
constexpr int64_t kMinTilesEach = 1;

std::optional<std::string> declines_tiles(const KernelQuery& query, bool transposed) {
  if (auto why = depthwise::declines(query, transposed)) return why;  // it is the fallback
  const ConvolutionShape s = convolution_shape(query);
  const auto& [z, y, x] = s.windows.axis;
  if (!is_low_precision(s.dtype)) return "takes bf16 and f16";
  if (y.taps != x.taps || (x.taps == 7 && x.stride != 1))
    return "takes square windows, those of 7 with a stride of 1";
  if (!is_quick(s.activation)) return kQuickActivations;
  const Tiles tiles = call_of(query, transposed).tiles;
  if (tiles.count * blocks_for(s.groups, kChannels) < planned_chip().multiprocessors * kMinTilesEach)
    return "takes maps that give each multiprocessor a tile";
  return std::nullopt;
}

template <bool transposed>
KernelImpl implementation() {
  return {.name = "depthwise_tiles",
          .run = run_tiles,
          .can_run = [](const KernelQuery& query) { return declines_tiles(query, transposed); },
          .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
            return std::make_shared<Call>(call_of(query, transposed));
          },
          .why_not_here = why_no_hopper_here};
}

}  // namespace
}  // namespace depthwise_tiles

KernelImpl depthwise_tiles_convolution() { return depthwise_tiles::implementation<false>(); }
KernelImpl depthwise_tiles_transposed() { return depthwise_tiles::implementation<true>(); }

}  // namespace genesis::cuda
