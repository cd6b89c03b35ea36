// The gradient of attention of queries that each see a range of the keys, by the tensor core instructions that every
// chip since compute capability 8.0 has.
//
//   p = exp(scale q k^T - lse)    dp = dy v^T    ds = p (dp - delta)
//   dv = p^T dy    dk = scale ds^T q    dq = scale ds k
//
// There are two kernels: in one, a block has 64 queries and passes over the tiles of keys that they see; in the
// other, it has 64 keys and passes over the queries that see them. p and ds are computed twice, and every sum stays
// in one warp's registers from its first term to its last, so its order is fixed. dk and dv of heads of 256 do not fit
// there together: the second kernel then runs twice.
#include <climits>

#include "backends/cuda/attention/ranges/attention_ranges.h"
#include "backends/cuda/attention/ranges/range_tiles.h"
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/exponential.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

constexpr int kRows = 64, kAll = kRows / 16 * kLanes;  // a warp has 16 rows of its block

// The tiles of every size fit in the shared memory of all chips since compute capability 8.6.
template <class H>
struct Sizes {
  static constexpr int kSize = H::kKey, kValues = H::kValue;
  // Rows per tile that the other side passes over: sums fill the registers.
  static constexpr int kKeys = kSize <= 128   ? 64
                               : kSize <= 192 ? 32
                                              : 16,
                       kQueries = kSize == 64    ? 64
                                  : kSize <= 192 ? 32
                                                 : 16;
  static constexpr int kRowBytes =
      kTileBytes<kRows, kSize>;  // the block's rows of q or k; those of dy or v follow
  static constexpr int kKeyBytes = kTileBytes<kKeys, kSize>, kQueryBytes = kTileBytes<kQueries, kSize>;
  static constexpr int kKeyStage = kKeyBytes + kTileBytes<kKeys, kValues>,
                       kQueryStage = kQueryBytes + kTileBytes<kQueries, kValues>;
  static constexpr int kAllRowBytes = kRowBytes + kTileBytes<kRows, kValues>;
  static constexpr int kQueryShared = kAllRowBytes + 2 * kKeyStage,
                       kKeyShared = kAllRowBytes + 2 * kQueryStage;
  static constexpr bool kSplits = kSize + kValues > 320;  // dk and dv have a kernel each
};

// The rows of a head in memory.
template <class T>
struct Head {
  T* data;
  int64_t step;

  __device__ __forceinline__ Head(const void* all, const HeadSteps& steps, int64_t b, int64_t h)
      : data(const_cast<T*>(static_cast<const T*>(all)) + b * steps.batch + h * steps.head),
        step(steps.row) {}
};

// The statistics of a query's softmax: lse in units of log2, and delta, which the gradient subtracts. lse is infinite
// for a query that sees no key, so that all its weights become 0.
struct RowStatistics {
  float lse = INFINITY, delta = 0;

  RowStatistics() = default;
  __device__ __forceinline__ RowStatistics(const AttentionData& d, const float* deltas, int64_t at)
      : delta(deltas[at]) {
    const float given = static_cast<const float*>(d.lse)[at];
    if (given != -INFINITY) lse = given * kLog2E;
  }
};

// --- gradients of queries

template <class T>
struct QueryBlock {
  int64_t b, h, first;
  VisibleKeys visible;
  Head<T> q, dy, k, v;

  __device__ __forceinline__ QueryBlock(const AttentionShape& s, const AttentionData& d, int row_tiles)
      : b(blockIdx.x / row_tiles / s.heads),
        h(blockIdx.x / row_tiles % s.heads),
        first(static_cast<int64_t>(row_tiles - 1 - static_cast<int>(blockIdx.x) % row_tiles) * kRows),
        visible(s, d, b),
        q(d.q, s.q, b, h),
        dy(d.dy, s.y, b, h),
        k(d.k, s.k, b, h / (s.heads / s.key_heads)),
        v(d.v, s.v, b, h / (s.heads / s.key_heads)) {}
  __device__ __forceinline__ Range of(const AttentionShape& s, int64_t query) const {
    if (query >= s.queries) return {0, 0};
    return {static_cast<int>(visible.begin(s, query)), static_cast<int>(visible.end(s, query))};
  }
};

// Turns the scores of a thread's two rows of queries into the scores' gradients.
template <int kKeys>
__device__ __forceinline__ void weigh_keys(Sums<kKeys>& scores, const Sums<kKeys>& dp, const Range (&sees)[2],
                                           const RowStatistics (&rows)[2], int first, float slope) {
  const int column = first + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int half = i / 2, key = column + 8 * n + i % 2;
      const float p = approximate_power(fmaf(scores[n][i], slope, -rows[half].lse));
      const bool seen = key >= sees[half].begin && key < sees[half].end;
      scores[n][i] = seen ? p * (dp[n][i] - rows[half].delta) : 0;
    }
}

// Starts to copy a tile of keys and their values into shared memory at `to`; copies nothing from `end` on, the end of
// the visible keys.
template <class T, class S>
__device__ __forceinline__ void ask_keys(const QueryBlock<T>& block, uint32_t to, int first, int end) {
  if (first < end) {
    copy_rows<T, S::kSize, S::kKeys, kAll>(to, block.k.data, block.k.step, first, block.visible.count);
    copy_rows<T, S::kValues, S::kKeys, kAll>(to + S::kKeyBytes, block.v.data, block.v.step, first,
                                             block.visible.count);
  }
  end_batch();
}

// Reads the ranges and statistics of a lane's two rows, counted from `mine`.
template <class T>
__device__ __forceinline__ void read_rows(const AttentionShape& s, const AttentionData& d,
                                          const float* deltas, const QueryBlock<T>& block, int64_t mine,
                                          Range (&sees)[2], RowStatistics (&rows)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = mine + half * 8 + static_cast<int>(threadIdx.x) % kLanes / 4;
    sees[half] = block.of(s, row);
    if (row < s.queries)
      rows[half] = RowStatistics(d, deltas, (block.b * s.heads + block.h) * s.queries + row);
  }
}

template <class T, class H>
__global__ void __launch_bounds__(kAll, 2)
    range_query_gradient(const __grid_constant__ AttentionShape s, const __grid_constant__ AttentionData d,
                         const float* deltas, int row_tiles) {
  using S = Sizes<H>;
  constexpr int kSize = S::kSize, kValues = S::kValues, kKeys = S::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  begin_in_order();
  const QueryBlock<T> block(s, d, row_tiles);
  const auto q = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t dy = q + S::kRowBytes, ring = q + S::kAllRowBytes;
  const int warp_row = static_cast<int>(threadIdx.x) / kLanes * 16;
  const int64_t mine = block.first + warp_row;
  const int begin = block.of(s, block.first).begin,
            end = block.of(s, min(block.first + kRows, s.queries) - 1).end;
  const int warp_begin = block.of(s, mine).begin, warp_end = block.of(s, min(mine + 16, s.queries) - 1).end;

  copy_rows<T, kSize, kRows, kAll>(q, block.q.data, block.q.step, block.first, s.queries);
  copy_rows<T, kValues, kRows, kAll>(dy, block.dy.data, block.dy.step, block.first, s.queries);
  int first = begin / kKeys * kKeys, stage = 0;
  ask_keys<T, S>(block, ring, first, end);
  Range sees[2];
  RowStatistics rows[2];
  read_rows(s, d, deltas, block, mine, sees, rows);
  Sums<kSize> sums[1] = {};
  const float slope = static_cast<float>(s.scale) * kLog2E;
  wait_for_batches<0>();
  __syncthreads();
  for (; first < end; first += kKeys, stage ^= 1) {
    ask_keys<T, S>(block, ring + static_cast<uint32_t>((stage ^ 1) * S::kKeyStage), first + kKeys, end);
    const uint32_t keys = ring + static_cast<uint32_t>(stage * S::kKeyStage);
    if (mine < s.queries && first + kKeys > warp_begin && first < warp_end) {
      Sums<kKeys> scores[1] = {}, dp[1] = {};
      add_dot_products<T, kSize, kRows, kKeys>(scores, q, warp_row, keys);
      add_dot_products<T, kValues, kRows, kKeys>(dp, dy, warp_row, keys + S::kKeyBytes);
      weigh_keys<kKeys>(scores[0], dp[0], sees, rows, first, slope);
      add_weighted_rows<T, kSize, kKeys>(sums, scores, keys);
    }
    wait_for_batches<0>();
    __syncthreads();
  }
  const Head<T> dq(d.dq, s.q, block.b, block.h);
  store_sums<T, kSize>(sums[0], static_cast<float>(s.scale), dq.data, dq.step, mine, s.queries);
}

// --- gradients of keys and values

// The data of a tile of queries that the key gradients need.
template <int kQueries>
struct QueryTile {
  float lse[kQueries], delta[kQueries];
  Range sees[kQueries];

  // Reads the tile with all threads. A query that does not exist sees nothing: its range starts beyond all others.
  __device__ __forceinline__ void read(const AttentionShape& s, const AttentionData& d,
                                       const VisibleKeys& visible, const float* deltas, int64_t statistics,
                                       int64_t first) {
    for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kAll) {
      const int64_t query = first + i;
      const bool exists = query < s.queries;
      const RowStatistics row = exists ? RowStatistics(d, deltas, statistics + query) : RowStatistics();
      lse[i] = row.lse;
      delta[i] = row.delta;
      sees[i] =
          exists ? Range{static_cast<int>(visible.begin(s, query)), static_cast<int>(visible.end(s, query))}
                 : Range{INT_MAX, INT_MAX};
    }
  }
  // Returns whether any query sees any of 16 keys.
  __device__ __forceinline__ bool sees_any(int key) const {
    return sees[0].begin < key + 16 && sees[kQueries - 1].end > key;
  }
};

// Computes the weights and the scores' gradients of a thread's two rows of keys.
template <int kQueries>
__device__ __forceinline__ void weigh_queries(Sums<kQueries>& p, Sums<kQueries>& dp,
                                              const QueryTile<kQueries>& tile, int64_t first, float slope) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, column = lane % 4 * 2;
  const int key = static_cast<int>(first) + lane / 4;
#pragma unroll
  for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int query = 8 * n + column + j;
      const float lse = tile.lse[query], delta = tile.delta[query];
      const Range sees = tile.sees[query];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = 2 * half + j;
        const bool seen = key + 8 * half >= sees.begin && key + 8 * half < sees.end;
        p[n][i] = seen ? approximate_power(fmaf(p[n][i], slope, -lse)) : 0;
        dp[n][i] = seen ? p[n][i] * (dp[n][i] - delta) : 0;
      }
    }
}

// Feeds a block of keys with the queries that see it: tile after tile of the first head of the group, then of the
// next.
template <class T, class H>
struct QueryFeed {
  using S = Sizes<H>;
  static constexpr int kQueries = S::kQueries;
  const AttentionShape& s;
  const AttentionData& d;
  const VisibleKeys& visible;
  const float* deltas;
  int64_t b, first_head;
  int begin, per_head, count;
  uint32_t ring;
  QueryTile<kQueries>* tiles;

  __device__ __forceinline__ QueryFeed(const AttentionShape& s, const AttentionData& d,
                                       const VisibleKeys& visible, const float* deltas, int64_t b,
                                       int64_t key_head, int64_t row0, uint32_t ring,
                                       QueryTile<kQueries>* tiles)
      : s(s), d(d), visible(visible), deltas(deltas), b(b), ring(ring), tiles(tiles) {
    const int64_t group = s.heads / s.key_heads;
    first_head = key_head * group;
    begin = static_cast<int>(visible.first(s, row0)) / kQueries * kQueries;
    const int past =
        row0 < visible.count ? static_cast<int>(visible.past(s, min(row0 + kRows, visible.count) - 1)) : 0;
    per_head = past > begin ? (past - begin + kQueries - 1) / kQueries : 0;
    count = static_cast<int>(group) * per_head;
  }
  __device__ __forceinline__ void ask(int stage, int i) const {
    if (i < count) {
      const int64_t h = first_head + i / per_head;
      const int first = begin + i % per_head * kQueries;
      const Head<T> q(d.q, s.q, b, h), dy(d.dy, s.y, b, h);
      const uint32_t to = ring + static_cast<uint32_t>(stage * S::kQueryStage);
      copy_rows<T, S::kSize, kQueries, kAll>(to, q.data, q.step, first, s.queries);
      copy_rows<T, S::kValues, kQueries, kAll>(to + S::kQueryBytes, dy.data, dy.step, first, s.queries);
      tiles[stage].read(s, d, visible, deltas, (b * s.heads + h) * s.queries, first);
    }
    end_batch();
  }
};

// The gradients that a kernel computes: dk, dv or both.
enum class Part { kBoth, kKeys, kValues };

template <class T, class H, Part kPart>
__global__ void __launch_bounds__(kAll, 2)
    range_key_gradient(const __grid_constant__ AttentionShape s, const __grid_constant__ AttentionData d,
                       const float* deltas, int row_tiles) {
  using S = Sizes<H>;
  constexpr int kQueries = S::kQueries, kSize = S::kSize, kValues = S::kValues;
  constexpr bool kHasKeys = kPart != Part::kValues, kHasValues = kPart != Part::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ QueryTile<kQueries> tiles[2];
  begin_in_order();
  const int64_t b = blockIdx.x / row_tiles / s.key_heads, key_head = blockIdx.x / row_tiles % s.key_heads;
  const int64_t row0 = static_cast<int64_t>(blockIdx.x % row_tiles) * kRows;
  const VisibleKeys visible(s, d, b);
  const auto k = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t v = k + S::kRowBytes, ring = k + S::kAllRowBytes;
  const Head<T> keys(d.k, s.k, b, key_head), values(d.v, s.v, b, key_head);
  copy_rows<T, kSize, kRows, kAll>(k, keys.data, keys.step, row0, visible.count);
  copy_rows<T, kValues, kRows, kAll>(v, values.data, values.step, row0, visible.count);

  const QueryFeed<T, H> queries(s, d, visible, deltas, b, key_head, row0, ring, tiles);
  queries.ask(0, 0);
  const int warp_row = static_cast<int>(threadIdx.x) / kLanes * 16;
  const int64_t mine = row0 + warp_row;
  Sums<kSize> dk[1] = {};
  Sums<kValues> dv[1] = {};
  const float slope = static_cast<float>(s.scale) * kLog2E;
  wait_for_batches<0>();
  __syncthreads();
  for (int i = 0, stage = 0; i < queries.count; ++i, stage ^= 1) {
    queries.ask(stage ^ 1, i + 1);
    const uint32_t q = ring + static_cast<uint32_t>(stage * S::kQueryStage), dy = q + S::kQueryBytes;
    if (tiles[stage].sees_any(static_cast<int>(mine))) {
      Sums<kQueries> p[1] = {}, ds[1] = {};
      add_dot_products<T, kSize, kRows, kQueries>(p, k, warp_row, q);
      if constexpr (kHasKeys) add_dot_products<T, kValues, kRows, kQueries>(ds, v, warp_row, dy);
      weigh_queries<kQueries>(p[0], ds[0], tiles[stage], mine, slope);
      if constexpr (kHasValues) add_weighted_rows<T, kValues, kQueries>(dv, p, dy);
      if constexpr (kHasKeys) add_weighted_rows<T, kSize, kQueries>(dk, ds, q);
    }
    wait_for_batches<0>();
    __syncthreads();
  }
  const Head<T> to_k(d.dk, s.k, b, key_head), to_v(d.dv, s.v, b, key_head);
  if constexpr (kHasKeys)
    store_sums<T, kSize>(dk[0], static_cast<float>(s.scale), to_k.data, to_k.step, mine, s.keys);
  if constexpr (kHasValues) store_sums<T, kValues>(dv[0], 1, to_v.data, to_v.step, mine, s.keys);
}

// --- launches

template <class T, class H, Part kPart>
void start_keys(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  const auto kernel = range_key_gradient<T, H, kPart>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Sizes<H>::kKeyShared);
  const int64_t tiles = blocks_for(s.keys, kRows);
  start(c, kernel, s.batch * s.key_heads * tiles, kAll, Sizes<H>::kKeyShared, s, d,
        reinterpret_cast<const float*>(d.scratch), static_cast<int>(tiles));
}

template <class T, class H>
void start_gradient(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  using S = Sizes<H>;
  const auto of_queries = range_query_gradient<T, H>;
  cudaFuncSetAttribute(of_queries, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kQueryShared);
  const int64_t query_tiles = blocks_for(s.queries, kRows);
  write_row_products(s, d);
  start(c, of_queries, s.batch * s.heads * query_tiles, kAll, S::kQueryShared, s, d,
        reinterpret_cast<const float*>(d.scratch), static_cast<int>(query_tiles));
  if constexpr (S::kSplits) {
    start_keys<T, H, Part::kKeys>(s, d, c);
    start_keys<T, H, Part::kValues>(s, d, c);
  } else {
    start_keys<T, H, Part::kBoth>(s, d, c);
  }
}

template <class T>
void start_type(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  with_head_sizes(s, [&]<class H>(H) { start_gradient<T, H>(s, d, c); });
}

}  // namespace

void run_range_gradient(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  s.dtype == DType::bf16 ? start_type<__nv_bfloat16>(s, d, c) : start_type<__half>(s, d, c);
}

}  // namespace genesis::cuda
