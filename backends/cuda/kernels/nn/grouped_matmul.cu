// grouped_matmul and its gradient. Offsets stay on the device: a block finds the group of its tile from them, so the host launches the
// most blocks that there can be, and those without a tile end at once. With few rows, a warp computes a few elements of one row and
// reads the weights of that row's group alone.
#include "schema/ops/nn/grouped_matmul.h"

#include <algorithm>

#include "backends/cuda/device/byte_product.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/warp_scan.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kSide = 16, kEach = kTile / kSide;

// The groups of a run. Offsets that cannot be are reported by clear_other_rows(), and cut to the rows that there are elsewhere.
struct Groups {
  const int64_t* offsets;
  int count;
  int64_t rows;

  __device__ int64_t first(int g) const { return min(max(offsets[g], int64_t{0}), rows); }
  __device__ int64_t end(int g) const { return max(first(g), min(offsets[g + 1], rows)); }
};

struct RowTile {
  int group;  // -1: there is no such tile
  int64_t first, end;
};

// Returns tile `index` of kTile rows at most, counted over all groups. All threads of a block call it, once, and get the same.
__device__ RowTile tile_of(const Groups& groups, int64_t index) {
  __shared__ RowTile tile;
  if (threadIdx.x == 0) tile.group = -1;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int base = 0; base < groups.count; base += kLanes) {
    const int g = base + lane;
    const int64_t first = g < groups.count ? groups.first(g) : 0, end = g < groups.count ? groups.end(g) : 0;
    const int64_t tiles = (end - first + kTile - 1) / kTile, through = warp_running_sum(tiles);
    if (threadIdx.x < kLanes && index < through && index >= through - tiles) {
      const int64_t at = first + (index - (through - tiles)) * kTile;
      tile.group = g;
      tile.first = at;
      tile.end = min(at + kTile, end);
    }
    const int64_t all = warp_sum(tiles);
    if (index < all) break;
    index -= all;
  }
  __syncthreads();
  return tile;
}

// Writes zeros to rows of no group, and reports offsets that cannot be.
template <class T>
__global__ void clear_other_rows(Groups groups, int64_t n, T* y, FaultReport fault) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t g = thread; g <= groups.count; g += stride) {
    const int64_t at = groups.offsets[g];
    if (at < 0 || at > groups.rows) fault(at, groups.rows + 1);
    if (g > 0 && at < groups.offsets[g - 1]) fault(groups.offsets[g - 1], at + 1);
  }
  if (!y) return;  // the gradient's groups have results of their own
  const int64_t head = groups.first(0) * n, tail = groups.first(groups.count) * n;
  for (int64_t i = thread; i < head; i += stride) y[i] = T(0.0f);
  for (int64_t i = tail + thread; i < groups.rows * n; i += stride) y[i] = T(0.0f);
}

// A matrix in memory: element (i, j) lies at i * row + j * column.
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;
};

// Computes a tile of C = A B with sums in the wide type: `m` rows and `n` columns at most, from row0 and column0 on.
template <class T>
__device__ void multiply_tile(const Matrix<T>& a, const Matrix<T>& b, T* c, int64_t ldc, int64_t m, int64_t n,
                              int64_t k, int64_t row0, int64_t column0) {
  using W = wide_t<T>;
  __shared__ W tile_a[kDepth][kTile + 1], tile_b[kDepth][kTile + 1];
  const int thread = threadIdx.x, ty = thread / kSide, tx = thread % kSide;
  W sums[kEach][kEach] = {};
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kSide * kSide) {
      // Neighboring threads read neighboring addresses, whichever axis is contiguous.
      const int row = a.row == 1 ? i % kTile : i / kDepth, ka = a.row == 1 ? i / kTile : i % kDepth;
      tile_a[ka][row] =
          row0 + row < m && k0 + ka < k ? widen(a.data[(row0 + row) * a.row + (k0 + ka) * a.column]) : W(0);
      const int column = b.row == 1 ? i / kDepth : i % kTile, kb = b.row == 1 ? i % kDepth : i / kTile;
      tile_b[kb][column] = column0 + column < n && k0 + kb < k
                               ? widen(b.data[(k0 + kb) * b.row + (column0 + column) * b.column])
                               : W(0);
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      W x[kEach], y[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        x[i] = tile_a[p][ty + i * kSide];
        y[i] = tile_b[p][tx + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row < m && column < n) c[row * ldc + column] = narrow<T>(sums[i][j]);
    }
}

// A block computes one tile of rows of one group, and kTile columns.
template <class T>
__global__ void __launch_bounds__(kSide* kSide)
    multiply_groups(Groups groups, int64_t n, int64_t k, bool transposed, const T* x, const T* weights,
                    T* y) {
  const int64_t across = (n + kTile - 1) / kTile;
  const RowTile tile = tile_of(groups, blockIdx.x / across);
  if (tile.group < 0) return;
  const Matrix<T> a{x + tile.first * k, k, 1},
      b{weights + tile.group * n * k, transposed ? 1 : n, transposed ? k : 1};
  multiply_tile<T>(a, b, y + tile.first * n, n, tile.end - tile.first, n, k, 0, blockIdx.x % across * kTile);
}

// A block computes a tile of one group's gradient, over all rows of the group.
template <class T>
__global__ void __launch_bounds__(kSide* kSide)
    sum_groups(Groups groups, int64_t n, int64_t k, const T* a, const T* b, T* y) {
  const int64_t across = (k + kTile - 1) / kTile, down = (n + kTile - 1) / kTile;
  const int64_t g = blockIdx.x / (across * down);
  const int64_t first = groups.first(static_cast<int>(g)), rows = groups.end(static_cast<int>(g)) - first;
  multiply_tile<T>({a + first * n, 1, n}, {b + first * k, k, 1}, y + g * n * k, k, n, k, rows,
                   blockIdx.x / across % down * kTile, blockIdx.x % across * kTile);
}

// --- few rows

constexpr int kWarps = 8, kColumns = 4;  // columns of a warp
constexpr int64_t kMaxFewRows = 256;

// Returns the group of a row, -1 if it has none. All threads of a warp call it.
__device__ int group_of(const Groups& groups, int64_t row) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int base = 0; base < groups.count; base += kLanes) {
    const int g = base + lane;
    const bool has = g < groups.count && row >= groups.first(g) && row < groups.end(g);
    if (const unsigned found = __ballot_sync(0xffffffffu, has))
      return base + __ffs(static_cast<int>(found)) - 1;
  }
  return -1;
}

template <class T>
__global__ void __launch_bounds__(kWarps* kLanes)
    multiply_rows(Groups groups, int64_t n, int64_t k, const T* x, const T* weights, T* y) {
  constexpr int N = 16 / sizeof(T);
  const int64_t across = (n + kWarps * kColumns - 1) / (kWarps * kColumns), row = blockIdx.x / across;
  const int group = group_of(groups, row);
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64_t column0 = (blockIdx.x % across * kWarps + warp) * kColumns;
  if (group < 0 || column0 >= n) return;
  float sums[kColumns] = {};
  for (int64_t p = lane * N; p < k; p += kLanes * N) {
    const auto v = *reinterpret_cast<const Pack<T, N>*>(x + row * k + p);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int64_t line = group * n + min(column0 + j, n - 1);
      const auto w = *reinterpret_cast<const Pack<T, N>*>(weights + line * k + p);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[j] = fmaf(widen(v.at[i]), widen(w.at[i]), sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const float sum = warp_sum(sums[j]);
    if (lane == 0 && column0 + j < n) y[row * n + column0 + j] = narrow<T>(sum);
  }
}

// Quantized weights of few rows: a thread converts eight values at a time, a quarter of a block.
template <WeightFormat kFormat, class T>
__global__ void __launch_bounds__(kWarps* kLanes)
    multiply_quantized_rows(Groups groups, int64_t n, int64_t k, const T* x, const uint8_t* quants,
                            const uint16_t* scales, T* y) {
  constexpr bool kFourBits = has_four_bits(kFormat);
  constexpr int kEach8 = 8;
  const int64_t across = (n + kWarps * kColumns - 1) / (kWarps * kColumns), row = blockIdx.x / across;
  const int group = group_of(groups, row);
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const int64_t column0 = (blockIdx.x % across * kWarps + warp) * kColumns;
  if (group < 0 || column0 >= n) return;
  float sums[kColumns] = {};
  for (int64_t i = lane; i < k / kEach8; i += kLanes) {
    const int part = static_cast<int>(i % 4);
    float v[kEach8];
#pragma unroll
    for (int p = 0; p < kEach8; ++p) v[p] = widen(x[row * k + i * kEach8 + p]);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int64_t line = group * n + min(column0 + j, n - 1), block = line * (k / kQuantBlock) + i / 4;
      // Values 8 to 15 and 24 to 31 of a block of four bits share bytes 8 to 15.
      const uint8_t* bytes =
          quants + (kFourBits ? block * 16 + part % 2 * kEach8 : block * 32 + part * kEach8);
      const WeightBlock<kFormat> of_block(scales[block]);
      float sum = 0;
#pragma unroll
      for (int p = 0; p < kEach8; ++p) {
        int quant = kFourBits ? (part < 2 ? bytes[p] & 15 : bytes[p] >> 4) : static_cast<int8_t>(bytes[p]);
        if (kFormat == WeightFormat::kQ4) quant -= kQ4Zero;
        sum = fmaf(v[p], static_cast<float>(quant) - of_block.zero, sum);
      }
      sums[j] = fmaf(sum, of_block.scale, sums[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const float sum = warp_sum(sums[j]);
    if (lane == 0 && column0 + j < n) y[row * n + column0 + j] = narrow<T>(sum);
  }
}

// --- launches

template <class T>
Groups start_groups(const KernelContext& c, const TensorView& offsets, int64_t rows, int64_t n, T* cleared) {
  const Groups groups{offsets.as<const int64_t>(), static_cast<int>(offsets.numel() - 1), rows};
  start(c, clear_other_rows<T>, 32, kThreads, 0, groups, n, cleared, launch_of(c).fault);
  return groups;
}

int64_t rows_of(const TensorView& x) { return x.dim(-1) == 0 ? 0 : x.numel() / x.dim(-1); }

void run_tiles(const KernelContext& c) {
  const int64_t n = c.output().dim(-1), k = c.input(0).dim(-1), rows = rows_of(c.output());
  const bool transposed = c.attributes<ops::GroupedMatmul>().transpose_weights;
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Groups groups = start_groups(c, c.input(2), rows, n, c.output().as<T>());
    const int64_t tiles = std::min(rows, rows / kTile + groups.count);
    start(c, multiply_groups<T>, tiles * blocks_for(n, kTile), kSide * kSide, 0, groups, n, k, transposed,
          c.input(0).as<const T>(), c.input(1).as<const T>(), c.output().as<T>());
  });
}

void run_gradient(const KernelContext& c) {
  const TensorView& y = c.output();
  const int64_t rows = std::max(rows_of(c.input(0)), rows_of(c.input(1)));
  dispatch_float(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Groups groups = start_groups<T>(c, c.input(2), rows, 0, nullptr);
    start(c, sum_groups<T>, y.dim(0) * blocks_for(y.dim(1), kTile) * blocks_for(y.dim(2), kTile),
          kSide * kSide, 0, groups, y.dim(1), y.dim(2), c.input(0).as<const T>(), c.input(1).as<const T>(),
          y.as<T>());
  });
}

std::optional<std::string> decline_quantized(const KernelQuery& query) {
  if (from_attributes<ops::GroupedMatmul>(query.attributes).is_quantized()) return "quantized weights";
  return std::nullopt;
}

std::optional<std::string> decline_rows(const KernelQuery& query) {
  if (auto why = decline_quantized(query)) return why;
  if (!from_attributes<ops::GroupedMatmul>(query.attributes).transpose_weights)
    return "weights [groups, k, n]";
  const TensorType& x = query.inputs[0];
  if (x.dtype == DType::f64) return "f64";
  const int64_t k = x.shape[x.shape.rank() - 1].value(), pack = 16 / static_cast<int64_t>(size_of(x.dtype));
  if (x.numel() > kMaxFewRows * k) return "more than " + std::to_string(kMaxFewRows) + " rows";
  if (k % pack != 0) return "rows that are no multiple of 16 bytes";
  return std::nullopt;
}

template <class T>
void start_rows(const KernelContext& c) {
  const int64_t n = c.output().dim(-1), k = c.input(0).dim(-1), rows = rows_of(c.output());
  const Groups groups = start_groups(c, c.input(2), rows, n, c.output().as<T>());
  start(c, multiply_rows<T>, rows * blocks_for(n, kWarps * kColumns), kWarps * kLanes, 0, groups, n, k,
        c.input(0).as<const T>(), c.input(1).as<const T>(), c.output().as<T>());
}

void run_rows(const KernelContext& c) {
  if (!aligned_to_packs(c)) return run_tiles(c);
  if (c.output().dtype == DType::bf16) return start_rows<__nv_bfloat16>(c);
  if (c.output().dtype == DType::f16) return start_rows<__half>(c);
  start_rows<float>(c);
}

std::optional<std::string> decline_quantized_rows(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  if (!from_attributes<ops::GroupedMatmul>(query.attributes).is_quantized()) return "weights as they are";
  if (x.dtype == DType::f64) return "f64";
  if (x.numel() > kMaxFewRows * x.shape[x.shape.rank() - 1].value())
    return "more than " + std::to_string(kMaxFewRows) + " rows";
  return std::nullopt;
}

template <class T>
void start_quantized_rows(const KernelContext& c) {
  const int64_t n = c.output().dim(-1), k = c.input(0).dim(-1), rows = rows_of(c.output());
  const Groups groups = start_groups(c, c.input(3), rows, n, c.output().as<T>());
  const WeightFormat format = c.attributes<ops::GroupedMatmul>().weight_format;
  const auto kernel = format == WeightFormat::kQ8   ? multiply_quantized_rows<WeightFormat::kQ8, T>
                      : format == WeightFormat::kQ4 ? multiply_quantized_rows<WeightFormat::kQ4, T>
                                                    : multiply_quantized_rows<WeightFormat::kQ4m, T>;
  start(c, kernel, rows * blocks_for(n, kWarps * kColumns), kWarps * kLanes, 0, groups, n, k,
        c.input(0).as<const T>(), c.input(1).as<const uint8_t>(), c.input(2).as<const uint16_t>(),
        c.output().as<T>());
}

void run_quantized_rows(const KernelContext& c) {
  if (c.output().dtype == DType::bf16) return start_quantized_rows<__nv_bfloat16>(c);
  if (c.output().dtype == DType::f16) return start_quantized_rows<__half>(c);
  start_quantized_rows<float>(c);
}

constexpr OpKernel kKernels[] = {
    {"grouped_matmul", {.name = "gemv", .run = run_rows, .can_run = decline_rows}},
    {"grouped_matmul",
     {.name = "quantized_gemv", .run = run_quantized_rows, .can_run = decline_quantized_rows}},
    {"grouped_matmul", {.name = "tiles", .run = run_tiles, .can_run = decline_quantized}},
    {"grouped_matmul_grad", {.name = "tiles", .run = run_gradient}}};

}  // namespace

std::span<const OpKernel> grouped_matmul_kernels() { return kKernels; }

}  // namespace genesis::cuda
