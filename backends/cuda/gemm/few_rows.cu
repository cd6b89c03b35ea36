// A block has some 16-row tiles of weights; its eight warps, and those of the other blocks of its cluster, take turns
// along k, 32 elements at a time. Each lane has a ring of its own in shared memory: 16 bytes of two rows of every tile, and
// of a row of x for every eight, arrive there by asynchronous copies. Before the kernels ahead have ended, rings are filled
// with weights, and what does not fit is asked into the second-level cache, so that memory does not wait for x. A block
// reads all of x out of that cache: half as many bytes as weights where it has four tiles and 32 rows. At the end sums
// meet in shared memory, those of warps first, then those of blocks, always in one order.
#include "backends/cuda/gemm/few_rows.h"

#include <algorithm>

#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/cluster.h"
#include "backends/cuda/device/lane_ring.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/device/tensor_core.h"

namespace genesis::cuda {
namespace {

constexpr int kTile = 16, kStep = 32;
constexpr int kPackBytes = kLanes * 16;  // what a warp copies at once

// Four tiles take twice the registers.
template <int kTiles>
constexpr int kWarpsOf = kTiles == 4 ? 4 : 8;

template <int kTiles, int kColumns>
struct Sizes {
  static constexpr int kWarps = kWarpsOf<kTiles>, kAll = kWarps * kLanes;
  static constexpr int kEights = kColumns;  // of rows of x
  static constexpr int kWeights = 2 * kTiles, kPacks = kWeights + kColumns;
  // Steps under way: a block takes less than half of a multiprocessor's shared memory, so that the next kernel's fit in.
  static constexpr int kDepth = kTiles == 2 ? 3 : 4;
  static constexpr int kRing = kDepth * kPacks * kPackBytes;  // bytes of a warp
  static constexpr int kSums =
      kTiles * kColumns * kLanes;  // of four numbers each, as a tensor core gives them
  static constexpr int kSharedBytes = kWarps * kRing + kSums * 16;
  static_assert(kRing >= kSums * 16, "a warp puts its sums where its ring was");
};

// What a lane copies: rows g and g + 8 of every tile, row g of every eight of x, and of them the eight elements of a
// step that are its quarter's.
template <class T, int kTiles, int kColumns, int kTileRows>
struct LaneFeed {
  using S = Sizes<kTiles, kColumns>;
  const T *low, *high;  // rows of the first tile
  const T* x;
  int tile_step, x_step;  // elements to the next tile, and to the next eight rows of x
  int k, rows, low_rows,
      high_rows;  // elements of a row; rows there are, of x and of weights, from the lane's own on
  uint32_t ring;

  __device__ __forceinline__ uint32_t at(int slot, int pack) const {
    return ring + static_cast<uint32_t>((slot * S::kPacks + pack) * kPackBytes);
  }
  __device__ __forceinline__ int element(int step) const {
    return step * kStep + static_cast<int>(threadIdx.x) % 4 * 8;
  }
  // Past the end of k, and instead of rows that do not exist, there are zeros; steps that begin there are never read.
  __device__ __forceinline__ bool has(int step) const { return step * kStep < k; }
  __device__ __forceinline__ void ask_weights(int slot, int step) const {
    if (!has(step)) return;
    const int i = element(step);
    const bool there = i < k;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int from = tile * tile_step + i;
      const bool has_low = there && tile * kTileRows < low_rows,
                 has_high = there && tile * kTileRows < high_rows;
      copy_or_zero(at(slot, 2 * tile), low + (has_low ? from : 0), has_low);
      copy_or_zero(at(slot, 2 * tile + 1), high + (has_high ? from : 0), has_high);
    }
  }
  __device__ __forceinline__ void ask_x(int slot, int step) const {
    if (!has(step)) return;
    const int i = element(step);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const bool there = i < k && 8 * c < rows;
      copy_or_zero(at(slot, S::kWeights + c), x + (there ? c * x_step + i : 0), there);
    }
  }
  __device__ __forceinline__ Words read(int slot, int pack) const { return read_words(at(slot, pack)); }
};

// Which rows of which layer a block has.
struct BlockRows {
  int layer = 0, rank = 0;
  int64_t first = 0;  // row of the layer; of a swiglu, of gate and up
};

// Weight rows of a tile: of a swiglu eight of gate and eight of up, so that one lane has the sums of both.
template <bool kSwiglu>
constexpr int kResults = kSwiglu ? kTile / 2 : kTile;

template <int kTiles, bool kSwiglu>
__device__ __forceinline__ BlockRows rows_of_block(const Gemv& gemv, int parts) {
  BlockRows rows;
  const int64_t block = static_cast<int64_t>(blockIdx.x) / parts;
  rows.rank = static_cast<int>(blockIdx.x) % parts;
  if (!kSwiglu)
    while (rows.layer + 1 < gemv.layers && block >= gemv.layer[rows.layer + 1].first_block) ++rows.layer;
  rows.first = (block - gemv.layer[rows.layer].first_block) * kTiles * kResults<kSwiglu>;
  return rows;
}

template <class T, class Feed, bool kSwiglu>
__device__ __forceinline__ Feed feed_of(const Gemv& gemv, const T* x, const BlockRows& rows,
                                        unsigned char* shared) {
  const Gemv::Layer &low = gemv.layer[rows.layer], &high = gemv.layer[kSwiglu ? 1 : rows.layer];
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes,
            g = lane / 4;
  Feed feed;
  const int64_t row = rows.first + g, left = low.n - row;
  feed.low_rows = static_cast<int>(left);
  feed.high_rows = static_cast<int>(kSwiglu ? left : left - 8);
  feed.low = static_cast<const T*>(low.weight) + (feed.low_rows > 0 ? row * gemv.k : 0);
  feed.high =
      static_cast<const T*>(high.weight) + (feed.high_rows > 0 ? (row + (kSwiglu ? 0 : 8)) * gemv.k : 0);
  feed.tile_step = static_cast<int>(kResults<kSwiglu> * gemv.k);
  feed.rows = static_cast<int>(gemv.m) - g;
  feed.x = x + (feed.rows > 0 ? g * gemv.lda : 0);
  feed.x_step = static_cast<int>(8 * gemv.lda);
  feed.k = static_cast<int>(gemv.k);
  feed.ring = static_cast<uint32_t>(__cvta_generic_to_shared(shared + warp * Feed::S::kRing + lane * 16));
  return feed;
}

template <class T, class Feed, int kTiles, int kColumns>
__device__ __forceinline__ void multiply_step(const Feed& feed, int slot,
                                              float (&sums)[kTiles][kColumns][4]) {
  using S = typename Feed::S;
  Words x[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) x[c] = feed.read(slot, S::kWeights + c);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const Words low = feed.read(slot, 2 * tile), high = feed.read(slot, 2 * tile + 1);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) multiply_32<T>(sums[tile][c], low, high, x[c]);
  }
}

// One lane's four numbers of a tile: rows g and g + 8 of weights, or gate and up, times two rows of x.
template <class T, int kColumns, bool kSwiglu>
struct Results {
  int64_t row[2] = {};
  int m = 0;
  float bias[2] = {}, addend[2][2] = {};  // addend: [row][m]

  __device__ __forceinline__ void read(const Gemv& gemv, const BlockRows& rows, int sum) {
    const int tile = sum / (kLanes * kColumns), lane = sum % kLanes;
    row[0] = rows.first + tile * kResults<kSwiglu> + lane / 4;
    row[1] = row[0] + (kSwiglu ? 0 : 8);
    m = sum / kLanes % kColumns * 8 + lane % 4 * 2;
    const Gemv::Layer& layer = gemv.layer[rows.layer];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row[r] >= layer.n) continue;
      const void* biases = gemv.layer[kSwiglu ? r : rows.layer].bias;
      if (biases) bias[r] = widen(static_cast<const T*>(biases)[row[r]]);
      if (!layer.addend) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (m + i < gemv.m)
          addend[r][i] = widen(static_cast<const T*>(layer.addend)[(m + i) * layer.ldc + row[r]]);
    }
  }
  __device__ __forceinline__ void put(const Gemv& gemv, const BlockRows& rows, const float4& sums) const {
    const Gemv::Layer& layer = gemv.layer[rows.layer];
    const float of_row[2][2] = {{sums.x, sums.y}, {sums.z, sums.w}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (m + i >= gemv.m) return;
      T* y = static_cast<T*>(layer.y) + (m + i) * layer.ldc;
      const float a = of_row[0][i] + bias[0], b = of_row[1][i] + bias[1];
      if constexpr (kSwiglu) {
        if (row[0] < layer.n) y[row[0]] = narrow<T>(gated<T>(widen(narrow<T>(a)), widen(narrow<T>(b))));
      } else {
        if (row[0] < layer.n) y[row[0]] = narrow<T>(activate(a, gemv.activation) + addend[0][i]);
        if (row[1] < layer.n) y[row[1]] = narrow<T>(activate(b, gemv.activation) + addend[1][i]);
      }
    }
  }
};

__device__ __forceinline__ void add(float4& sum, const float4& more) {
  sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
}

// The first bytes of a block's rows, into the second-level cache: `ahead` of a row for each block of the cluster.
template <class T, int kTiles, bool kSwiglu>
__device__ __forceinline__ void ask_into_cache(const Gemv& gemv, const BlockRows& rows, int ahead) {
  // A warp's lanes ask one after the other, so all warps have a few.
  constexpr int kWarps = kWarpsOf<kTiles>;
  const int thread = static_cast<int>(threadIdx.x), from = rows.rank * ahead,
            i = thread % kLanes * kWarps + thread / kLanes;
  const int bytes = min(ahead, static_cast<int>(gemv.k * sizeof(T)) - from);
  if (i >= kTiles * kTile || bytes <= 0) return;
  const bool is_up = kSwiglu && i >= kTiles * kResults<kSwiglu>;
  const Gemv::Layer& layer = gemv.layer[is_up ? 1 : rows.layer];
  const int64_t row = rows.first + i - (is_up ? kTiles * kResults<kSwiglu> : 0);
  if (row >= layer.n) return;
  const char* weights = static_cast<const char*>(layer.weight) + row * gemv.k * sizeof(T);
  prefetch_into_cache(weights + from, static_cast<uint32_t>(bytes));
}

// The share of k of one warp: steps from `step` on, every `stride`th.
template <class T, class Feed, int kTiles, int kColumns>
__device__ __forceinline__ void multiply_all(const Feed& feed, bool settled, int step, int stride,
                                             float (&sums)[kTiles][kColumns][4]) {
  constexpr int kDepth = Feed::S::kDepth;
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    if (!settled) feed.ask_weights(d, step + d * stride);
    feed.ask_x(d, step + d * stride);
    end_batch();
  }
  int slot = 0;
  for (; feed.has(step); step += stride) {
    wait_for_batches<kDepth - 1>();
    multiply_step<T>(feed, slot, sums);
    feed.ask_weights(slot, step + kDepth * stride);
    feed.ask_x(slot, step + kDepth * stride);
    end_batch();
    if (++slot == kDepth) slot = 0;
  }
  wait_for_batches<0>();
  __syncwarp();  // sums go where other lanes' rings were
}

// Where sums lie in shared memory: each warp's where its ring was, the block's behind them.
template <class S>
struct SharedSums {
  unsigned char* shared;

  __device__ __forceinline__ float4* of_warp(int warp) const {
    return reinterpret_cast<float4*>(shared + warp * S::kRing);
  }
  __device__ __forceinline__ float4* of_block() const { return of_warp(S::kWarps); }
  template <int kTiles, int kColumns>
  __device__ __forceinline__ void put(const float (&sums)[kTiles][kColumns][4]) const {
    float4* to = of_warp(static_cast<int>(threadIdx.x) / kLanes) + threadIdx.x % kLanes;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float(&s)[4] = sums[tile][c];
        to[(tile * kColumns + c) * kLanes] = make_float4(s[0], s[1], s[2], s[3]);
      }
  }
  __device__ __forceinline__ float4 all_warps(int i) const {
    float4 sum = of_warp(0)[i];
#pragma unroll
    for (int warp = 1; warp < S::kWarps; ++warp) add(sum, of_warp(warp)[i]);
    return sum;
  }
  __device__ __forceinline__ void add_warps() const {
    for (int i = static_cast<int>(threadIdx.x); i < S::kSums; i += S::kAll) of_block()[i] = all_warps(i);
  }
  // Those of the blocks are there with more parts than one.
  __device__ __forceinline__ float4 all(int i, int parts) const {
    if (parts == 1) return all_warps(i);
    float4 sum = read_of_block(of_block() + i, 0, parts);
    for (int part = 1; part < parts; ++part) add(sum, read_of_block(of_block() + i, part, parts));
    return sum;
  }
};

// A block's part of the sums: what a thread adds to them is asked for while others still multiply.
template <class T, class S, bool kSwiglu>
struct Finish {
  static constexpr int kEach = (S::kSums + S::kAll - 1) / S::kAll;
  Results<T, S::kEights, kSwiglu> results[kEach];
  int count, first;

  __device__ __forceinline__ Finish(const Gemv& gemv, const BlockRows& rows, int parts)
      : count(S::kSums / parts), first(rows.rank * count + static_cast<int>(threadIdx.x)) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (is_there(j)) results[j].read(gemv, rows, first + j * S::kAll);
  }
  __device__ __forceinline__ bool is_there(int j) const {
    return static_cast<int>(threadIdx.x) + j * S::kAll < count;
  }
  __device__ __forceinline__ void run(const Gemv& gemv, const BlockRows& rows, const SharedSums<S>& sums,
                                      int parts) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (is_there(j)) results[j].put(gemv, rows, sums.all(first + j * S::kAll, parts));
  }
};

template <class T, int kTiles, int kColumns, bool kSwiglu>
__global__ void __launch_bounds__(Sizes<kTiles, kColumns>::kAll, 2)
    few_rows(const __grid_constant__ Gemv gemv, const T* x, int parts, int ahead) {
  using S = Sizes<kTiles, kColumns>;
  using Feed = LaneFeed<T, kTiles, kColumns, kResults<kSwiglu>>;
  extern __shared__ __align__(128) unsigned char shared[];
  pdl_launch_dependents();
  const BlockRows rows = rows_of_block<kTiles, kSwiglu>(gemv, parts);
  const Feed feed = feed_of<T, Feed, kSwiglu>(gemv, x, rows, shared);
  const int step = rows.rank * S::kWarps + static_cast<int>(threadIdx.x) / kLanes, stride = S::kWarps * parts;
  if (gemv.settled) {
#pragma unroll
    for (int d = 0; d < S::kDepth; ++d) feed.ask_weights(d, step + d * stride);
    ask_into_cache<T, kTiles, kSwiglu>(gemv, rows, ahead);
  }
  pdl_wait();
  float sums[kTiles][kColumns][4] = {};
  multiply_all<T>(feed, gemv.settled, step, stride, sums);

  const SharedSums<S> shared_sums{shared};
  shared_sums.put(sums);
  const Finish<T, S, kSwiglu> finish(gemv, rows, parts);
  __syncthreads();
  if (parts > 1) {
    shared_sums.add_warps();
    wait_for_cluster();
  }
  finish.run(gemv, rows, shared_sums, parts);
  if (parts > 1) wait_for_cluster();  // others read this block's sums
}

// --- starting it

// Bytes of a row that a block asks into the second-level cache: what all kernels under way ask there must fit.
int bytes_ahead(const Gemv& gemv, int64_t rows, const FewRowsCut& cut, int64_t element_bytes) {
  constexpr int64_t kCacheBytes = int64_t{20} << 20;
  if (!cut.asks_ahead) return 0;
  const int64_t share = blocks_for(gemv.k * element_bytes, 16 * cut.parts),
                most = kCacheBytes / 16 / cut.parts;
  return static_cast<int>(16 * std::min(share, most / rows));
}

template <class T, int kTiles, int kColumns, bool kSwiglu>
void start_kernel(Gemv gemv, const void* x, const Launch& launch, const FewRowsCut& cut) {
  using S = Sizes<kTiles, kColumns>;
  int64_t blocks = 0;
  for (int i = 0; i < (kSwiglu ? 1 : gemv.layers); ++i) {
    gemv.layer[i].first_block = blocks;
    blocks += blocks_for(gemv.layer[i].n, kTiles * kResults<kSwiglu>);
  }
  if (blocks == 0) return;
  const auto kernel = few_rows<T, kTiles, kColumns, kSwiglu>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  ClusterLaunch early(launch, static_cast<unsigned>(blocks * cut.parts), S::kAll, S::kSharedBytes,
                      static_cast<unsigned>(cut.parts));
  const int ahead = bytes_ahead(gemv, blocks * kTiles * kTile, cut, sizeof(T));
  cudaLaunchKernelEx(&early.config, kernel, gemv, static_cast<const T*>(x), cut.parts, ahead);
}

template <class T, int kTiles, int kColumns>
void start_columns(bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                   const FewRowsCut& cut) {
  swiglu ? start_kernel<T, kTiles, kColumns, true>(gemv, x, launch, cut)
         : start_kernel<T, kTiles, kColumns, false>(gemv, x, launch, cut);
}

template <class T, int kTiles>
void start_tiles(bool swiglu, const Gemv& gemv, const void* x, const Launch& launch, const FewRowsCut& cut) {
  gemv.m <= 16 ? start_columns<T, kTiles, 2>(swiglu, gemv, x, launch, cut)
               : start_columns<T, kTiles, 4>(swiglu, gemv, x, launch, cut);
}

template <class T>
void start_type(bool swiglu, const Gemv& gemv, const void* x, const Launch& launch, const FewRowsCut& cut) {
  if (cut.tiles == 2) return start_tiles<T, 2>(swiglu, gemv, x, launch, cut);
  start_tiles<T, 4>(swiglu, gemv, x, launch, cut);
}

}  // namespace

// As timed on an H100: two tiles are the fastest almost everywhere, four where their blocks are one wave of two to a
// multiprocessor.
FewRowsCut few_rows_cut(int64_t n, int64_t k) {
  constexpr int64_t kManyBlocks = 128;  // a multiprocessor each, on a large chip
  const int64_t of_four = blocks_for(n, 4 * kTile);
  FewRowsCut cut;
  cut.tiles = of_four >= kManyBlocks && of_four <= 2 * kManyBlocks ? 4 : 2;
  // Clusters end later than blocks do, so each warp has a few steps of its own.
  while (cut.parts < 8 && blocks_for(n, cut.tiles * kTile) * cut.parts < kManyBlocks &&
         k >= 4 * 8 * kStep * cut.parts)
    cut.parts *= 2;
  return cut;
}

std::optional<std::string> few_rows_decline(DType dtype, int64_t m, int64_t k) {
  if (dtype != DType::bf16 && dtype != DType::f16) return "neither bf16 nor f16";
  if (m < 1 || m > kMaxFewRows) return "too many rows";
  if (k < 8 || k % 8 != 0 || k >= int64_t{1} << 24) return "rows that are no multiple of 16 bytes";
  return std::nullopt;
}

void run_few_rows(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const Launch& launch,
                  FewRowsCut cut) {
  if (!launch.can_use_pdl) cut.parts = 1;  // older chips
  if (dtype == DType::bf16) return start_type<__nv_bfloat16>(swiglu, gemv, x, launch, cut);
  start_type<__half>(swiglu, gemv, x, launch, cut);
}

}  // namespace genesis::cuda
