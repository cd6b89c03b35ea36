// A product of the rows of windows (implicit GEMM): a row of a tile is a position of the map, a column an output channel, and the
// terms are taps times input channels, which follow each other in memory where the channels are last.
#include "backends/cuda/convolution/few_tiles.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/convolution/few_tiles_feed.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/device/cluster.h"
#include "backends/cuda/device/tensor_core.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace few_tiles {
namespace {

// Adds the products of one stage. The group's four warps lie two by two over the tile.
template <class T, class S>
__device__ __forceinline__ void multiply_stage(uint32_t stage, float (&sums)[S::kRowTiles][S::kEights][4]) {
  const int warp = static_cast<int>(threadIdx.x) % kGroup / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = warp % 2 * (S::kRows / 2) + lane % 16,
            first_column = warp / 2 * (S::kColumns / 2) + lane / 16 * 8 + lane % 8;
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    uint32_t a[S::kRowTiles][4], b[S::kEights / 2][4];
#pragma unroll
    for (int i = 0; i < S::kRowTiles; ++i)
      ldmatrix(a[i], stage + swizzle_128(first_row + 16 * i, 2 * k + lane / 16));
#pragma unroll
    for (int j = 0; j < S::kEights / 2; ++j)
      ldmatrix(b[j], stage + S::kRowBytes + swizzle_128(first_column + 16 * j, 2 * k + lane / 8 % 2));
#pragma unroll
    for (int i = 0; i < S::kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < S::kEights; ++j)
        multiply_16x8<T>(sums[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
                         b[j / 2][j % 2 * 2 + 1]);
  }
}

// Writes the group's sums as [row][column].
template <class S>
__device__ __forceinline__ void put_sums(float* shared, const float (&sums)[S::kRowTiles][S::kEights][4]) {
  const int warp = static_cast<int>(threadIdx.x) % kGroup / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp % 2 * (S::kRows / 2) + lane / 4, column = warp / 2 * (S::kColumns / 2) + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < S::kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < S::kEights; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(shared + (row + 16 * i + 8 * half) * S::kPitch + column + 8 * j) =
            make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
}

constexpr int kMaxParts = 8;

__device__ __forceinline__ void add_four(float4& sum, const float4& more) {
  sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
}

// Adds the sums of the block's groups to those of the first.
template <class S>
__device__ __forceinline__ void add_groups(unsigned char* memory, int group_bytes) {
  constexpr int kFours = S::kColumns / 4;
  for (int i = static_cast<int>(threadIdx.x); i < S::kRows * kFours; i += kBlock) {
    auto* sum = reinterpret_cast<float4*>(memory + (i / kFours * S::kPitch + i % kFours * 4) * 4);
    float4 all = *sum;
#pragma unroll
    for (int group = 1; group < kGroups; ++group)
      add_four(all,
               *reinterpret_cast<const float4*>(reinterpret_cast<unsigned char*>(sum) + group * group_bytes));
    *sum = all;
  }
}

// A thread finishes four channels of every kStep-th of the block's rows.
template <class T, class S>
struct Finish {
  static constexpr int kFours = S::kColumns / 4, kStep = kBlock / kFours, kMax = S::kRows / kStep;
  const Problem<T>& p;
  int own, rows;             // the thread's first row, of so many that the block finishes
  int row, column, channel;  // in the tile; of the map
  int position;
  float scale[4], bias[4];
  uint2 addends[kMax];

  __device__ __forceinline__ Finish(const Problem<T>& problem, const TileCell& cell)
      : p(problem),
        own(static_cast<int>(threadIdx.x) / kFours),
        rows(S::kRows / p.parts),
        row(cell.part * rows + own),
        column(static_cast<int>(threadIdx.x) % kFours * 4),
        channel(cell.column + column),
        position(cell.row + row) {}
  __device__ __forceinline__ bool is_there(int j) const {
    return own + j * kStep < rows && position + j * kStep < p.positions && channel < p.out;
  }
  __device__ __forceinline__ int64_t at(int j) const {
    return (int64_t{position + j * kStep} * p.out + channel) / 4;
  }
  __device__ __forceinline__ void read_channels() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scale[i] = channel < p.out ? p.scale.at(channel + i, 1.0f) : 0.0f;
      bias[i] = channel < p.out ? p.bias.at(channel + i, 0.0f) : 0.0f;
    }
  }
  __device__ __forceinline__ void read_addends() {
#pragma unroll
    for (int j = 0; j < kMax; ++j) addends[j] = p.addend && is_there(j) ? p.addend[at(j)] : uint2{};
  }
  // Adds the sums of all blocks of the cluster, in order.
  __device__ __forceinline__ void run(const float* shared) const {
#pragma unroll
    for (int j = 0; j < kMax; ++j) {
      if (!is_there(j)) break;
      const auto* four = reinterpret_cast<const float4*>(shared + (row + j * kStep) * S::kPitch + column);
      float4 sums[kMaxParts];
#pragma unroll
      for (int part = 0; part < kMaxParts; ++part)
        if (part < p.parts) sums[part] = read_of_block(four, part, p.parts);
#pragma unroll
      for (int part = 1; part < kMaxParts; ++part)
        if (part < p.parts) add_four(sums[0], sums[part]);
      p.y[at(j)] = finished(sums[0], addends[j]);
    }
  }
  __device__ __forceinline__ uint2 finished(const float4& sum, const uint2& addend) const {
    const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
    const float more[4] = {low_of<T>(addend.x), high_of<T>(addend.x), low_of<T>(addend.y),
                           high_of<T>(addend.y)};
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      y[i] = sums[i] * scale[i] + bias[i];
      if (p.addend) y[i] += more[i];
      y[i] = quickly_activated(y[i], p.activation);
    }
    return {pair_of<T>(y[0], y[1]), pair_of<T>(y[2], y[3])};
  }
};

template <class T, class S>
__global__ void __launch_bounds__(kBlock, 2) few_tiles_kernel(const __grid_constant__ Problem<T> p) {
  extern __shared__ __align__(128) unsigned char memory[];
  pdl_launch_dependents();
  const TileCell cell = p.template cell_of_block<S>();
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  unsigned char* own = memory + group * p.group_bytes;
  Feed<T, S> feed(p, cell, group, shared_address(own));
  if (p.weight_is_independent) feed.ask_first_weights();
  pdl_wait();
  if (!p.weight_is_independent) feed.ask_first_weights();
  feed.ask_first_rows();
  Finish<T, S> finish(p, cell);
  finish.read_channels();
  float sums[S::kRowTiles][S::kEights][4] = {};
  for (int i = 0; i < feed.count; ++i) {
    wait_for_batches<S::kStages - 2>();
    wait_for_threads(1 + group, kGroup);
    feed.ask(i + S::kStages - 1);
    multiply_stage<T, S>(feed.stage(i), sums);
  }
  wait_for_batches<0>();
  wait_for_threads(1 + group, kGroup);
  put_sums<S>(reinterpret_cast<float*>(own), sums);
  finish.read_addends();
  __syncthreads();
  add_groups<S>(memory, p.group_bytes);
  if (p.parts > 1)
    wait_for_cluster();
  else
    __syncthreads();
  finish.run(reinterpret_cast<const float*>(memory));
  __syncwarp();
  if (p.parts > 1) wait_for_cluster();  // other blocks read this block's sums
}

// --- launch

struct Cut {
  int rows = 64, columns = 64, parts = 1;
};

struct FewTiles {
  ConvolutionShape shape;  // first, because the plain kernels read it
  Cut cut;
};

constexpr Cut kTiles[] = {{64, 64}, {64, 32}, {32, 32}};

int64_t positions_of(const ConvolutionShape& s) { return s.batch * s.windows.positions(); }

// Returns about how many cycles the blocks take: a start, stages one after the other, and the exchange of a cluster.
double cycles_of(const ConvolutionShape& s, const Cut& cut, int64_t multiprocessors) {
  const int64_t blocks = blocks_for(positions_of(s), cut.rows) * blocks_for(s.out(), cut.columns) * cut.parts,
                stages = blocks_for(blocks_for(s.depth(), kDepth), cut.parts * kGroups);
  const double stage = 120.0 + (cut.rows + cut.columns) * 3.0, tile = 1000 + cut.rows * cut.columns / 4.0,
               exchange = cut.parts > 1 ? 1500 + cut.parts * 50 : 0;
  return static_cast<double>(blocks_for(blocks, multiprocessors)) *
             (tile + static_cast<double>(stages) * stage) +
         exchange;
}

Cut cut_of(const ConvolutionShape& s, int64_t multiprocessors) {
  Cut best;
  double least = std::numeric_limits<double>::infinity();
  for (Cut cut : kTiles)
    for (cut.parts = 1; cut.parts <= kMaxParts && cut.parts <= blocks_for(s.depth(), kDepth); cut.parts *= 2)
      if (const double cycles = cycles_of(s, cut, multiprocessors); cycles < least)
        least = cycles, best = cut;
  return best;
}

template <class T>
Problem<T> problem_of(const KernelContext& c, const ConvolutionShape& s, int parts) {
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const auto& [z, y, x] = s.windows.axis;
  Problem<T> p{};
  p.x = c.input(0).as<const Words>(), p.weight = c.input(1).as<const Words>();
  p.y = c.output().as<uint2>();
  p.scale = channel_numbers<T>(c, s.has_scale, 2);
  p.bias = channel_numbers<T>(c, s.has_bias, s.bias_input());
  p.addend = s.has_addend ? c.input(static_cast<int>(s.addend_input())).as<const uint2>() : nullptr;
  p.activation = s.activation;
  p.positions = number(positions_of(s)), p.out = number(s.out());
  p.packs = number(s.in() / 8), p.all_packs = p.packs * number(s.windows.taps());
  p.height = number(y.size), p.width = number(x.size), p.taps_x = number(x.taps);
  p.y_axis = {number(y.stride), number(y.dilation), number(y.begin)};
  p.x_axis = {number(x.stride), number(x.dilation), number(x.begin)};
  p.by_image = make_divisor(s.windows.positions()), p.by_line = make_divisor(x.positions);
  p.by_packs = make_divisor(p.packs), p.by_taps = make_divisor(x.taps);
  p.parts = parts;
  p.weight_is_independent = is_independent(c, 1);
  return p;
}

template <class T, class S>
void launch_tiles(const KernelContext& c, Problem<T> p) {
  p.group_bytes = S::group_bytes(blocks_for(blocks_for(p.all_packs, kPacks), p.parts * kGroups));
  p.by_row_tiles = make_divisor(blocks_for(p.positions, S::kRows));
  const auto kernel = few_tiles_kernel<T, S>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kMaxSharedBytes);
  const int64_t tiles = blocks_for(p.positions, S::kRows) * blocks_for(p.out, S::kColumns);
  const auto parts = static_cast<unsigned>(p.parts);
  ClusterLaunch early(launch_of(c), static_cast<unsigned>(tiles) * parts, kBlock,
                      static_cast<size_t>(kGroups * p.group_bytes), parts);
  cudaLaunchKernelEx(&early.config, kernel, p);
}

template <class T>
void launch_type(const KernelContext& c, const FewTiles& made) {
  // Older chips have no clusters.
  const Problem<T> p = problem_of<T>(c, made.shape, launch_of(c).can_use_pdl ? made.cut.parts : 1);
  if (made.cut.rows == 32) return launch_tiles<T, Sizes<32, 32>>(c, p);
  made.cut.columns == 32 ? launch_tiles<T, Sizes<64, 32>>(c, p) : launch_tiles<T, Sizes<64, 64>>(c, p);
}

void run_few_tiles(const KernelContext& c) {
  if (!aligned_to_packs(c)) return run_plain_convolution(c);
  const auto& made = c.prepared<FewTiles>();
  made.shape.dtype == DType::bf16 ? launch_type<__nv_bfloat16>(c, made) : launch_type<__half>(c, made);
}

// Returns true if the places of an axis's elements may exceed 32 bits.
bool moves_far(const WindowAxis& a) {
  constexpr int64_t kFar = int64_t{1} << 28;
  const auto is_far = [](int64_t steps, int64_t step) {
    return steps > 0 && (steps >= kFar || step >= kFar || steps * step >= kFar);
  };
  return a.begin >= kFar || is_far(a.positions - 1, a.stride) || is_far(a.taps - 1, a.dilation);
}

// Larger maps fill the chip with larger tiles, which cuDNN multiplies faster.
constexpr double kMaxCycles = 9000;

std::optional<std::string> declines_few_tiles(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  const auto& [z, y, x] = s.windows.axis;
  if (!is_low_precision(s.dtype)) return "takes bf16 and f16";
  if (!s.channels_last || s.groups != 1) return "takes channels behind the spatial axes, in one group";
  if (s.in() % 8 != 0 || s.out() % 8 != 0) return "takes channels that fill 16 bytes";
  if (!is_single(z)) return "takes two spatial axes";
  const int64_t sizes[] = {s.batch, s.in(), s.out(), y.size, x.size, y.positions, x.positions};
  if (std::ranges::count(sizes, 0) > 0) return "takes tensors with elements";
  if (moves_far(y) || moves_far(x)) return "takes padding and windows of fewer than 2^28 elements";
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (checked_mul(s.batch * s.in(), s.windows.elements()) > most ||
      checked_mul(positions_of(s), s.out()) > most || checked_mul(s.out(), s.depth()) > most)
    return "takes fewer than 2^31 elements";
  const int64_t multiprocessors = planned_chip().multiprocessors;
  if (cycles_of(s, cut_of(s, multiprocessors), multiprocessors) > kMaxCycles)
    return "takes maps that do not fill the chip with large tiles";
  return std::nullopt;
}

std::shared_ptr<const void> prepare_few_tiles(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  return std::make_shared<FewTiles>(FewTiles{s, cut_of(s, planned_chip().multiprocessors)});
}

}  // namespace
}  // namespace few_tiles

KernelImpl few_tiles_convolution() {
  return {.name = "few_tiles",
          .run = few_tiles::run_few_tiles,
          .can_run = few_tiles::declines_few_tiles,
          .prepare = few_tiles::prepare_few_tiles,
          .why_not_here = why_no_early_starts_here};
}

}  // namespace genesis::cuda
