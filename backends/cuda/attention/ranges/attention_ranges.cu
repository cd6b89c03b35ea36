// Attention of queries that each see a range of the keys: rows of several texts (key_start) and windows. A block has
// 128 queries of a head in registers and passes only over the tiles of 64 keys that some of them see, so the keys of
// other texts cost nothing. The algorithm is FlashAttention-2 (Dao, 2023, arXiv:2307.08691): scores stay in the
// accumulator registers of the tensor cores and become the left operand of the product with the values.
#include "backends/cuda/attention/ranges/attention_ranges.h"

#include "backends/cuda/attention/ranges/range_tiles.h"
#include "backends/cuda/attention/visible_keys.h"
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/online_softmax.h"

namespace genesis::cuda {
namespace {

constexpr int kRows = 128, kKeys = 64, kStages = 2;
constexpr float kLn2 = 0.6931471805599453f;

// A warp has 16 or 32 rows: as many as leave registers for their sums.
template <int kSize>
struct Sizes {
  static constexpr int kTiles = kSize == 64 ? 2 : 1, kWarpRows = 16 * kTiles,
                       kAll = kRows / kWarpRows * kLanes;
  static constexpr int kSteps = kSize / 16;            // steps of a product over features
  static constexpr int kKeyBytes = kKeys * kSize * 2;  // bytes of a tile of keys or of values
  static constexpr int kBlocks = kSize == 64 ? 2 : 1;  // blocks per multiprocessor, limited by registers
  static constexpr int kSharedBytes = kRows * kSize * 2 + 2 * kStages * kKeyBytes;
};

// The work of a block.
template <class T>
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
template <class T, int kSize>
struct WarpRows {
  using S = Sizes<kSize>;
  uint32_t q[S::kSteps][S::kTiles][4];
  Sums<kSize> y[S::kTiles] = {};
  OnlineSoftmax<PowerOfTwo> softmax[S::kTiles][2];
  Range sees[S::kTiles][2];

  __device__ __forceinline__ WarpRows(const AttentionShape& s, const RangeBlock<T>& block, int64_t first) {
    const int g = static_cast<int>(threadIdx.x) % kLanes / 4;
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) sees[tile][half] = block.of(s, first + tile * 16 + half * 8 + g);
  }

  __device__ __forceinline__ void load_queries(uint32_t shared, int row) {
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
      for (int step = 0; step < S::kSteps; ++step)
        load_rows<kRows>(q[step][tile], shared, row + tile * 16, step);
  }

  // Adds one tile of keys, starting with `first`, and their values.
  __device__ __forceinline__ void add(uint32_t keys, uint32_t values, int first, float slope, bool masked) {
    Sums<kKeys> scores[S::kTiles] = {};
#pragma unroll
    for (int step = 0; step < S::kSteps; ++step) add_dot_products<T, kKeys>(scores, q[step], keys, step);
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        masked ? weigh<true>(scores[tile], tile, half, first, slope)
               : weigh<false>(scores[tile], tile, half, first, slope);
    add_weighted_rows<T, kSize, kKeys>(y, scores, values);
  }

 private:
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
    for (int n = 0; n < kSize / 8; ++n) y[tile][n][2 * half] *= factor, y[tile][n][2 * half + 1] *= factor;
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
        for (int n = 0; n < kSize / 8; ++n)
          *reinterpret_cast<uint32_t*>(to + 8 * n) =
              pair_of<T>(y[tile][n][2 * half] * by, y[tile][n][2 * half + 1] * by);
        if (d.lse && lane % 4 == 0)
          static_cast<float*>(d.lse)[(b * s.heads + h) * s.queries + row] =
              max == -INFINITY ? -INFINITY : max * kLn2 + logf(all);
      }
  }
};

template <class T, int kSize>
__global__ void __launch_bounds__(Sizes<kSize>::kAll, Sizes<kSize>::kBlocks)
    attend_ranges(const __grid_constant__ AttentionShape s, const __grid_constant__ AttentionData d,
                  int row_tiles) {
  using S = Sizes<kSize>;
  extern __shared__ __align__(128) unsigned char shared[];
  begin_in_order();
  const RangeBlock<T> block(s, d, row_tiles);
  if (block.h == 0) check_key_starts(s, d, block.visible, block.first, block.first + kRows);
  const auto queries = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t ring = queries + kRows * kSize * 2;
  const Range all = block.of_rows(s, block.first, kRows);
  const int warp_row = static_cast<int>(threadIdx.x) / kLanes * S::kWarpRows;
  const int64_t mine = block.first + warp_row;
  const Range rows = block.of_rows(s, mine, S::kWarpRows);
  const int most = block.of(s, min(mine + S::kWarpRows, s.queries) - 1).begin,
            least = block.of(s, min(mine, s.queries - 1)).end;  // every row sees keys from `most` to `least`

  const auto keys_at = [&](int stage) { return ring + static_cast<uint32_t>(stage * 2 * S::kKeyBytes); };
  const auto ask = [&](int stage, int first) {
    if (first < all.end) {
      copy_rows<T, kSize, kKeys, S::kAll>(keys_at(stage), block.k, s.k.row, first, block.visible.count);
      copy_rows<T, kSize, kKeys, S::kAll>(keys_at(stage) + S::kKeyBytes, block.v, s.v.row, first,
                                          block.visible.count);
    }
    end_batch();
  };
  copy_rows<T, kSize, kRows, S::kAll>(queries, block.q, s.q.row, block.first, s.queries);
  int first = all.begin / kKeys * kKeys, stage = 0;
  ask(0, first);
  WarpRows<T, kSize> state(s, block, mine);
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

template <class T, int kSize>
void start_ranges(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  using S = Sizes<kSize>;
  const auto kernel = attend_ranges<T, kSize>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  const int64_t row_tiles = blocks_for(s.queries, kRows);
  start_with_pdl(c, kernel, s.batch * s.heads * row_tiles, S::kAll, S::kSharedBytes, s, d,
                 static_cast<int>(row_tiles));
}

template <class T>
void start_type(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  s.size == 64 ? start_ranges<T, 64>(s, d, c) : start_ranges<T, 128>(s, d, c);
}

}  // namespace

std::optional<std::string> range_attention_declines(const AttentionShape& s) {
  if (s.dtype != DType::f16 && s.dtype != DType::bf16) return "it takes f16 and bf16";
  if (s.has_mask) return "it takes no mask";
  if (!s.has_key_start && s.window == 0) return "all queries see keys from the first on";
  if ((s.size != 64 && s.size != 128) || s.v_size != s.size) return "it takes heads of 64 and 128";
  if (s.queries * s.keys < 32 * 32) return "the tiles do small ones";
  constexpr int64_t kMaxCount = int64_t{1} << 30;
  if (s.batch * s.heads > kMaxCount / blocks_for(s.queries, kRows) || s.keys > kMaxCount)
    return "it counts in i32";
  return std::nullopt;
}

void run_range_attention(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  s.dtype == DType::bf16 ? start_type<__nv_bfloat16>(s, d, c) : start_type<__half>(s, d, c);
}

}  // namespace genesis::cuda
