// grouped_matmul and its gradient. Offsets stay on the device: a block finds the group of its tile from them, so the host launches the
// most blocks that there can be, and those without a tile end at once. With few rows, a warp computes a few elements of one row and
// reads the weights of that row's group alone.
#include "schema/ops/nn/grouped_matmul.h"

#include <algorithm>

#include "backends/cuda/device/byte_product.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/plain_tile.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/row_groups.h"
#include "backends/cuda/device/warp_scan.h"
#include "backends/cuda/product_implementations.h"

namespace genesis::cuda {
namespace {

constexpr int kTile = kPlainTile;

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

template <class T>
__global__ void clear_rows_of_no_group(Groups groups, int64_t n, T* y, FaultReport fault) {
  clear_other_rows(groups, n, y, fault);
}

// A block computes one tile of rows of one group, and kTile columns.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    multiply_groups(Groups groups, int64_t n, int64_t k, bool transposed, const T* x, const T* weights,
                    T* y) {
  const int64_t across = (n + kTile - 1) / kTile;
  const RowTile tile = tile_of(groups, blockIdx.x / across);
  if (tile.group < 0) return;
  const PlainMatrix<T> a{x + tile.first * k, k, 1},
      b{weights + tile.group * n * k, transposed ? 1 : n, transposed ? k : 1};
  y += tile.first * n;
  multiply_plain_tile<T>(
      a, b, tile.end - tile.first, n, k, 0, blockIdx.x % across * kTile,
      [&](int64_t row, int64_t column, wide_t<T> sum) { y[row * n + column] = narrow<T>(sum); });
}

// A block computes a tile of one group's gradient, over all rows of the group.
template <class T>
__global__ void __launch_bounds__(kPlainThreads)
    sum_groups(Groups groups, int64_t n, int64_t k, const T* a, const T* b, T* y) {
  const int64_t across = (k + kTile - 1) / kTile, down = (n + kTile - 1) / kTile;
  const int64_t g = blockIdx.x / (across * down);
  const int64_t first = groups.first(static_cast<int>(g)), rows = groups.end(static_cast<int>(g)) - first;
  y += g * n * k;
  multiply_plain_tile<T>(
      PlainMatrix<T>{a + first * n, 1, n}, PlainMatrix<T>{b + first * k, k, 1}, n, k, rows,
      blockIdx.x / across % down * kTile, blockIdx.x % across * kTile,
      [&](int64_t row, int64_t column, wide_t<T> sum) { y[row * k + column] = narrow<T>(sum); });
}

// --- few rows

constexpr int kWarps = 8, kColumns = 4;  // columns of a warp
constexpr int64_t kMaxFewRows = 256;

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
  const Groups groups = groups_of(offsets, rows);
  start(c, clear_rows_of_no_group<T>, 32, kThreads, 0, groups, n, cleared, launch_of(c).fault);
  return groups;
}

int64_t rows_of(const TensorView& x) { return x.dim(-1) == 0 ? 0 : x.numel() / x.dim(-1); }

}  // namespace

void run_grouped_tiles(const KernelContext& c) {
  const int64_t n = c.output().dim(-1), k = c.input(0).dim(-1), rows = rows_of(c.output());
  const bool transposed = c.attributes<ops::GroupedMatmul>().transpose_weights;
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Groups groups = start_groups(c, c.input(2), rows, n, c.output().as<T>());
    const int64_t tiles = std::min(rows, rows / kTile + groups.count);
    start(c, multiply_groups<T>, tiles * blocks_for(n, kTile), kPlainThreads, 0, groups, n, k, transposed,
          c.input(0).as<const T>(), c.input(1).as<const T>(), c.output().as<T>());
  });
}

void run_grouped_gradient_tiles(const KernelContext& c) {
  const TensorView& y = c.output();
  const int64_t rows = std::max(rows_of(c.input(0)), rows_of(c.input(1)));
  dispatch_float(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Groups groups = start_groups<T>(c, c.input(2), rows, 0, nullptr);
    start(c, sum_groups<T>, y.dim(0) * blocks_for(y.dim(1), kTile) * blocks_for(y.dim(2), kTile),
          kPlainThreads, 0, groups, y.dim(1), y.dim(2), c.input(0).as<const T>(), c.input(1).as<const T>(),
          y.as<T>());
  });
}

namespace {

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
  if (!aligned_to_packs(c)) return run_grouped_tiles(c);
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

}  // namespace

std::span<const OpKernel> grouped_matmul_kernels() {
  static const OpKernel kernels[] = {
      {"grouped_matmul", {.name = "gemv", .run = run_rows, .can_run = decline_rows}},
      {"grouped_matmul",
       {.name = "quantized_gemv", .run = run_quantized_rows, .can_run = decline_quantized_rows}},
      {"grouped_matmul", grouped_rows_implementation()},
      {"grouped_matmul", {.name = "tiles", .run = run_grouped_tiles, .can_run = decline_quantized}},
      {"grouped_matmul_grad", grouped_sums_implementation()},
      {"grouped_matmul_grad", {.name = "tiles", .run = run_grouped_gradient_tiles}}};
  return kernels;
}

}  // namespace genesis::cuda
