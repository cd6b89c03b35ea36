#include "backends/cuda/hopper/row_tiles/row_tiles.h"

#include <cmath>

#include "backends/cuda/gemm/few_rows/row_implementations.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace row_tiles {
namespace {

template <class S>
__global__ void __launch_bounds__(S::kAll, 1)
    product(const __grid_constant__ Maps maps, const __grid_constant__ Arguments a) {
#ifdef GENESIS_HOPPER
  extern __shared__ unsigned char memory[];
  __shared__ Barriers barriers;
  unsigned char* start = memory + (kAlignment - shared_address(memory) % kAlignment) % kAlignment;
  const Task<S> task(a);
  const Ring<S> ring(a, shared_address(start), barriers);
  pdl_launch_dependents();
  if (threadIdx.x == 0) make_barriers<S>(a, barriers);
  __syncthreads();
  if (threadIdx.x >= S::kConsumers) {
    if (threadIdx.x == S::kConsumers) Producer<S>{a, maps, task, ring}.run();
    return;
  }
  pdl_wait();
  float sums[S::kN / 2];
  multiply_slices<S>(a.slices, ring, sums);
  finish_tile<S>(Results<S>(a, task), sums);
#endif
}

// --- host

constexpr int64_t kFewestRows = 33, kMaxRows = 128, kMaxGatedRows = 256;
constexpr int64_t kMaxBytes = 16 << 20;   // weights without a swiglu; the library reads larger ones as fast
constexpr int64_t kManyBytes = 64 << 20;  // gate and up, which fewer rows also take
constexpr int64_t kMaxSharedBytes = (227 << 10) - 1024;  // the rest is for barriers
constexpr int64_t kHalfSharedBytes = 112 << 10;          // two blocks share a multiprocessor

// The split of a product over the chip: kN and kGroups.
struct Cut {
  int columns = 0, groups = 1;  // columns 0: none
};

// The work that a cut gives to a block of one product, and its shared memory.
struct Cost {
  int64_t row_blocks = 1, blocks = 0, slices = 0, x_rows = 0;
  int64_t stage_bytes = 0, extra_bytes = 0;
  int stages = 0;
  bool one_wave = true;  // else two blocks share a multiprocessor, and more follow
};

Cost cost_of(const RowProducts& p, const Cut& cut) {
  Cost c;
  c.row_blocks = blocks_for(p.m, cut.groups * kGroupRows);
  c.blocks = RowSplit(p, p.swiglu ? cut.columns / 2 : cut.columns).blocks * c.row_blocks;
  c.slices = blocks_for(p.k, kDepth);
  c.x_rows = c.row_blocks == 1 ? blocks_for(p.m, 8) * 8 : cut.groups * kGroupRows;
  c.stage_bytes = (c.x_rows + cut.columns) * kRowBytes;
  // A warpgroup reads 64 rows of x; those that do not exist may be anything.
  c.extra_bytes = kAlignment + int64_t{cut.groups} * kGroupRows * kRowBytes;
  c.one_wave = c.blocks <= planned_chip().multiprocessors;
  const int64_t ring = (c.one_wave ? kMaxSharedBytes : kHalfSharedBytes) - c.extra_bytes;
  c.stages = static_cast<int>(std::min<int64_t>({c.slices, kMaxStages, ring / c.stage_bytes}));
  return c;
}

// Several waves are for weights so large that few rows take no longer than reading them.
bool fits(const RowProducts& p, const Cost& c) {
  return c.stages >= std::min<int64_t>(c.slices, c.one_wave ? 2 : 4) && (c.one_wave || p.m <= kGroupRows);
}

// The bytes per nanosecond of an H200: what a multiprocessor receives, what the second-level cache gives, and what memory
// gives.
constexpr double kToOne = 80, kFromCache = 5500, kFromMemory = 4100;

double bytes_of_weights(const RowProducts& p) { return static_cast<double>(p.rows_of_weights() * p.k * 2); }

// Estimates the nanoseconds that a product takes from its start: the longest of the three above and of the products.
double nanoseconds_of(const RowProducts& p, const Cut& cut, const Cost& c) {
  constexpr double kCycles = 1.7;  // in a nanosecond
  const auto bytes = static_cast<double>(c.slices * c.stage_bytes), blocks = static_cast<double>(c.blocks);
  const double product = std::max(cut.columns / 2, 16 + cut.columns / 4) / kCycles;
  const double multiplies = static_cast<double>(4 * c.slices * cut.groups) * product;
  const double waves = std::ceil(blocks / static_cast<double>(planned_chip().multiprocessors));
  return std::max({multiplies * waves, waves * bytes / kToOne, blocks * bytes / kFromCache,
                   bytes_of_weights(p) / kFromMemory});
}

// Chooses by sizes alone. A library that shares k among blocks is faster than a cut that takes much longer than reading the
// weights.
Cut cut_of(const RowProducts& p) {
  constexpr int kPlain[] = {16, 32, 64}, kGated[] = {64, 80, 128};
  constexpr double kStart = 4000;
  double least = 2 * bytes_of_weights(p) / kFromMemory + kStart;
  Cut best;
  for (const int columns : p.swiglu ? kGated : kPlain)
    for (const int groups : {1, 2, 4}) {
      const Cut cut{columns, groups};
      const Cost cost = cost_of(p, cut);
      if (!fits(p, cost) || (groups > 1 && p.m <= groups * kGroupRows / 2)) continue;
      if (const double time = nanoseconds_of(p, cut, cost); time < least) least = time, best = cut;
    }
  return best;
}

bool make_maps(const RowProducts& p, const Cut& cut, int64_t x_rows, Maps& maps) {
  const int rows = p.swiglu ? cut.columns / 2 : cut.columns;
  for (int i = 0; i < p.layers; ++i)
    if (!make_tensor_map({p.layer[i].weight, p.layer[i].n, p.k, rows}, maps.weight[i])) return false;
  return make_tensor_map({p.x, p.m, p.k, static_cast<int>(x_rows)}, maps.x);
}

template <class S>
bool start_kernel(const Arguments& a, const Maps& maps, const Cost& cost, const Launch& launch) {
  const auto kernel = product<S>;
  // Set for every device, because the current one may change.
  if (!has_hopper_kernel(reinterpret_cast<const void*>(kernel), kMaxSharedBytes)) return false;
  const auto shared = static_cast<size_t>(cost.stages * cost.stage_bytes + cost.extra_bytes);
  const PdlLaunch early(launch, static_cast<unsigned>(cost.blocks), S::kAll, shared);
  cudaLaunchKernelEx(&early.config, kernel, maps, a);
  return true;
}

template <int kGroups>
bool start_columns(const Arguments& a, const Maps& maps, int columns, const Cost& cost,
                   const Launch& launch) {
  if (a.products.swiglu) {
    if (columns == 64) return start_kernel<Tile<kGroups, 64, true>>(a, maps, cost, launch);
    if (columns == 80) return start_kernel<Tile<kGroups, 80, true>>(a, maps, cost, launch);
    return start_kernel<Tile<kGroups, 128, true>>(a, maps, cost, launch);
  }
  if constexpr (kGroups * kGroupRows <= kMaxRows) {
    if (columns == 16) return start_kernel<Tile<kGroups, 16, false>>(a, maps, cost, launch);
    if (columns == 32) return start_kernel<Tile<kGroups, 32, false>>(a, maps, cost, launch);
    return start_kernel<Tile<kGroups, 64, false>>(a, maps, cost, launch);
  }
  return false;
}

// Returns false and starts nothing if the driver makes no maps or the build has no code for the chip.
bool start_row_tiles(const RowProducts& p, const Launch& launch) {
  const Cut cut = cut_of(p);
  if (!launch.can_use_pdl || cut.columns == 0 || p.lda != p.k) return false;
  const Cost cost = cost_of(p, cut);
  const RowSplit split(p, p.swiglu ? cut.columns / 2 : cut.columns);
  const Arguments a{p,
                    split,
                    static_cast<int>(cost.slices),
                    cost.stages,
                    static_cast<int>(cost.x_rows),
                    static_cast<int>(cost.row_blocks)};
  Maps maps;
  if (!make_maps(p, cut, cost.x_rows, maps)) return false;
  if (cut.groups == 1) return start_columns<1>(a, maps, cut.columns, cost, launch);
  if (cut.groups == 2) return start_columns<2>(a, maps, cut.columns, cost, launch);
  return start_columns<4>(a, maps, cut.columns, cost, launch);
}

// Does not ask a GPU.
std::string why_not_row_tiles(const RowProducts& p) {
  if (p.wide) return "a result of another dtype";
  if (p.dtype != DType::bf16) return "it takes bf16";
  const double bytes = bytes_of_weights(p);
  if (p.m < kFewestRows && (p.m < 2 || !p.swiglu || bytes < kManyBytes))
    return "so few rows that others are faster";
  if (p.m > (p.swiglu ? kMaxGatedRows : kMaxRows)) return "too many rows";
  if (!p.swiglu && bytes > kMaxBytes) return "weights so large that the library reads them at memory's speed";
  if (p.has_norm) return "a norm, which every block would make again";
  if (p.k % 8 != 0 || p.k >= int64_t{1} << 24) return "rows that are no multiple of 16 bytes";
  for (int i = 0; i < p.layers; ++i)
    if (p.layer[i].n % 8 != 0) return "results that are no multiple of 16 bytes";
  return cut_of(p).columns == 0 ? "weights that the blocks of one wave read too slowly" : "";
}

bool never(const RowProducts&, const Launch&) { return false; }

constexpr RowKernel kRowTiles = {
    .why_not = why_not_row_tiles, .start = start_row_tiles, .otherwise = never, .reads_biases_early = false};

}  // namespace
}  // namespace row_tiles

KernelImpl linear_row_tiles_implementation() {
  return row_implementation<row_tiles::kRowTiles>("row_tiles", why_no_hopper_here);
}

}  // namespace genesis::cuda
