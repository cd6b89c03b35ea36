// Attention of queries that each see a range of the keys: rows of several texts (key_start), and windows that cuDNN
// does not take. A block has
// 128 queries of a head in registers (64 of long heads) and passes only over the tiles of 64 keys (32) that some of them
// see, so the keys of other texts cost nothing. The algorithm is FlashAttention-2 (Dao, 2023, arXiv:2307.08691): scores stay in the
// accumulator registers of the tensor cores and become the left operand of the product with the values.
#include "backends/cuda/attention/ranges/attention_ranges.h"

#include "backends/cuda/attention/ranges/range_tiles.h"
#include "backends/cuda/attention/visible_keys.h"
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/online_softmax.h"

namespace genesis::cuda {
namespace {

constexpr int kStages = 2;
constexpr float kLn2 = 0.6931471805599453f;

// A warp has 16 or 32 rows: as many as leave registers for their sums. The tiles of every size fit in the shared memory
// of all chips since compute capability 8.6.
template <class H>
struct Sizes {
  static constexpr int kSize = H::kKey, kValues = H::kValue;
  static constexpr bool kIsLong = kSize > 128;
  static constexpr int kRows = kIsLong ? 64 : 128, kKeys = kIsLong ? 32 : 64;
  static constexpr int kTiles = kSize == 64 ? 2 : 1, kWarpRows = 16 * kTiles,
                       kAll = kRows / kWarpRows * kLanes;
  static constexpr int kSteps = kSize / 16;            // steps of a product over features
  static constexpr bool kHoldsQueries = kSize <= 192;  // in registers; else each product loads them again
  static constexpr int kQueryBytes = kTileBytes<kRows, kSize>, kKeyBytes = kTileBytes<kKeys, kSize>,
                       kStageBytes = kKeyBytes + kTileBytes<kKeys, kValues>;
  static constexpr int kBlocks = kSize == 64 || kIsLong ? 2 : 1;  // per multiprocessor, limited by registers
  static constexpr int kSharedBytes = kQueryBytes + kStages * kStageBytes;
};

// The work of a block.
template <class T, int kRows>
struct RangeBlock {
  int64_t b, h, first;  // first query
  VisibleKeys visible;
  const T *q, *k, *v;

  __device__ __forceinline__ RangeBlock(const AttentionShape& s, const AttentionData& d, int row_tiles)
      : b(blockIdx.x / row_tiles / s.heads),
        h(blockIdx.x / row_tiles % s.heads),
        first(static_cast<int64_t>(row_tiles - 1 - static_cast<int>(blockIdx.x) % row_tiles) * kRows),
        visible(s, d, b) {
    const int64_t key_head = h / (s.heads / s.key_heads);
    q = static_cast<const T*>(d.q) + b * s.q.batch + h * s.q.head;
    k = static_cast<const T*>(d.k) + b * s.k.batch + key_head * s.k.head;
    v = static_cast<const T*>(d.v) + b * s.v.batch + key_head * s.v.head;
  }
  __device__ __forceinline__ Range of(const AttentionShape& s, int64_t query) const {
    if (query >= s.queries) return {0, 0};
    return {static_cast<int>(visible.begin(s, query)), static_cast<int>(visible.end(s, query))};
  }
  // Returns the union of the ranges of up to `count` queries, starting with `from`.
  __device__ __forceinline__ Range of_rows(const AttentionShape& s, int64_t from, int count) const {
    if (from >= s.queries) return {0, 0};
    return {of(s, from).begin, of(s, min(from + count, s.queries) - 1).end};
  }
};

// A warp's rows. Lane 4 * g + t holds rows g and g + 8 of each tile of 16, and of these columns 8 * n + 2 * t and the
// next one.
template <class T, class H>
struct WarpRows {
  using S = Sizes<H>;
  static constexpr int kRows = S::kRows, kKeys = S::kKeys, kValues = S::kValues;
  uint32_t q[S::kHoldsQueries ? S::kSteps : 1][S::kTiles][4];
  uint32_t queries;  // the tile of the block's queries, and the warp's first row there
  int first_row;
  Sums<kValues> y[S::kTiles] = {};
  OnlineSoftmax<PowerOfTwo> softmax[S::kTiles][2];
  Range sees[S::kTiles][2];

  __device__ __forceinline__ WarpRows(const AttentionShape& s, const RangeBlock<T, kRows>& block,
                                      int64_t first) {
    const int g = static_cast<int>(threadIdx.x) % kLanes / 4;
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) sees[tile][half] = block.of(s, first + tile * 16 + half * 8 + g);
  }

  __device__ __forceinline__ void load_queries(uint32_t shared, int row) {
    queries = shared;
    first_row = row;
    if constexpr (S::kHoldsQueries) {
#pragma unroll
      for (int step = 0; step < S::kSteps; ++step) load_step(q[step], step);
    }
  }

  // Adds one tile of keys, starting with `first`, and their values.
  __device__ __forceinline__ void add(uint32_t keys, uint32_t values, int first, float slope, bool masked) {
    Sums<kKeys> scores[S::kTiles] = {};
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) {
      if constexpr (!S::kHoldsQueries) load_step(q[0], step);
      add_dot_products<T, kKeys>(scores, q[S::kHoldsQueries ? step : 0], keys, step);
    }
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        masked ? weigh<true>(scores[tile], tile, half, first, slope)
               : weigh<false>(scores[tile], tile, half, first, slope);
    add_weighted_rows<T, kValues, kKeys>(y, scores, values);
  }

 private:
  __device__ __forceinline__ void load_step(uint32_t (&to)[S::kTiles][4], int step) const {
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
      load_rows<kRows>(to[tile], queries, first_row + tile * 16, step);
  }
  // Turns the scores of a row into weights: powers of two of their difference to the largest score so far.
  template <bool kMasked>
  __device__ __forceinline__ void weigh(Sums<kKeys>& scores, int tile, int half, int first, float slope) {
    const int column = first + static_cast<int>(threadIdx.x) % 4 * 2;
    const Range range = sees[tile][half];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[n][2 * half + i];
        score *= slope;
        const int key = column + 8 * n + i;
        if (kMasked && (key < range.begin || key >= range.end)) score = -INFINITY;
      }
    const float factor = softmax[tile][half].template weigh<kKeys / 4>(
        4, [&](int j) -> float& { return scores[j / 2][2 * half + j % 2]; });
#pragma unroll
    for (int n = 0; n < kValues / 8; ++n) y[tile][n][2 * half] *= factor, y[tile][n][2 * half + 1] *= factor;
  }

 public:
  __device__ __forceinline__ void store(const AttentionShape& s, const AttentionData& d, int64_t b, int64_t h,
                                        int64_t first) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float max = softmax[tile][half].max, all = reduce_lanes(softmax[tile][half].sum, 4, Add{}),
                    by = all == 0 ? 0 : 1 / all;
        const int64_t row = first + tile * 16 + half * 8 + lane / 4;
        if (row >= s.queries) continue;
        T* to = static_cast<T*>(d.y) + b * s.y.batch + h * s.y.head + row * s.y.row + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kValues / 8; ++n)
          *reinterpret_cast<uint32_t*>(to + 8 * n) =
              pair_of<T>(y[tile][n][2 * half] * by, y[tile][n][2 * half + 1] * by);
        if (d.lse && lane % 4 == 0)
          static_cast<float*>(d.lse)[(b * s.heads + h) * s.queries + row] =
              max == -INFINITY ? -INFINITY : max * kLn2 + logf(all);
      }
  }
};

template <class T, class H>
__global__ void __launch_bounds__(Sizes<H>::kAll, Sizes<H>::kBlocks)
    attend_ranges(const __grid_constant__ AttentionShape s, const __grid_constant__ AttentionData d,
                  int row_tiles) {
  using S = Sizes<H>;
  constexpr int kRows = S::kRows, kKeys = S::kKeys;
  extern __shared__ __align__(128) unsigned char shared[];
  begin_in_order();
  const RangeBlock<T, kRows> block(s, d, row_tiles);
  if (block.h == 0) check_key_starts(s, d, block.visible, block.first, block.first + kRows);
  const auto queries = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t ring = queries + S::kQueryBytes;
  const Range all = block.of_rows(s, block.first, kRows);
  const int warp_row = static_cast<int>(threadIdx.x) / kLanes * S::kWarpRows;
  const int64_t mine = block.first + warp_row;
  const Range rows = block.of_rows(s, mine, S::kWarpRows);
  const int most = block.of(s, min(mine + S::kWarpRows, s.queries) - 1).begin,
            least = block.of(s, min(mine, s.queries - 1)).end;  // every row sees keys from `most` to `least`

  const auto keys_at = [&](int stage) { return ring + static_cast<uint32_t>(stage * S::kStageBytes); };
  const auto ask = [&](int stage, int first) {
    if (first < all.end) {
      copy_rows<T, S::kSize, kKeys, S::kAll>(keys_at(stage), block.k, s.k.row, first, block.visible.count);
      copy_rows<T, S::kValues, kKeys, S::kAll>(keys_at(stage) + S::kKeyBytes, block.v, s.v.row, first,
                                               block.visible.count);
    }
    end_batch();
  };
  copy_rows<T, S::kSize, kRows, S::kAll>(queries, block.q, s.q.row, block.first, s.queries);
  int first = all.begin / kKeys * kKeys, stage = 0;
  ask(0, first);
  WarpRows<T, H> state(s, block, mine);
  wait_for_batches<0>();
  __syncthreads();
  state.load_queries(queries, warp_row);
  const float slope = static_cast<float>(s.scale) * kLog2E;
  for (; first < all.end; first += kKeys, stage ^= 1) {
    ask(stage ^ 1, first + kKeys);
    if (first + kKeys > rows.begin && first < rows.end)
      state.add(keys_at(stage), keys_at(stage) + S::kKeyBytes, first, slope,
                first < most || first + kKeys > least);
    wait_for_batches<0>();
    __syncthreads();
  }
  state.store(s, d, block.b, block.h, mine);
}

template <class T, class H>
void start_ranges(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  using S = Sizes<H>;
  const auto kernel = attend_ranges<T, H>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  const int64_t row_tiles = blocks_for(s.queries, S::kRows);
  start_with_pdl(c, kernel, s.batch * s.heads * row_tiles, S::kAll, S::kSharedBytes, s, d,
                 static_cast<int>(row_tiles));
}

template <class T>
void start_type(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  with_head_sizes(s, [&]<class H>(H) { start_ranges<T, H>(s, d, c); });
}

}  // namespace

std::optional<std::string> range_kernels_decline(const AttentionShape& s) {
  if (s.dtype != DType::f16 && s.dtype != DType::bf16) return "it takes f16 and bf16";
  if (s.has_mask) return "it takes no mask";
  if (!with_head_sizes(s, [](auto) {}))
    return "it takes heads of 64, 80, 96, 128 and 256, and of 192 with values of 128";
  if (s.queries * s.keys < 32 * 32) return "the tiles do small ones";
  constexpr int64_t kMaxCount = int64_t{1} << 30, kFewestRows = 64;
  const int64_t rows = s.gradient ? std::max(s.queries, s.keys) : s.queries;
  if (s.batch * s.heads > kMaxCount / blocks_for(rows, kFewestRows) || s.keys > kMaxCount ||
      (s.gradient && s.queries > kMaxCount / s.heads))
    return "it counts in i32";
  return std::nullopt;
}

void run_range_attention(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  s.dtype == DType::bf16 ? start_type<__nv_bfloat16>(s, d, c) : start_type<__half>(s, d, c);
}

}  // namespace genesis::cuda
