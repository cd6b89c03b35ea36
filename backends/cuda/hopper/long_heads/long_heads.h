// Attention and its gradient in bf16 for heads of 256 and 512 on Hopper chips, for queries that each see a range of the
// keys. FlashAttention-2 (Dao, 2023, arXiv:2307.08691) with its sums cut by features:
//
//   s = q k^T    p = softmax(scale s)    y = p v
//   dp = dy v^T    ds = p (dp - delta)    dv = p^T dy    dk = scale ds^T q    dq = scale ds k
//
// A block has 64 rows, of queries (y, dq) or of keys (dk, dv), and passes over tiles of 32 rows of the other side. The
// sums of 64 rows of 512 features fill the registers of two warpgroups, so each has half of the features, and both
// compute all scores: they stay in registers as the left operand of the sum, and the warpgroups share only the tiles.
// While one weighs its scores, the tensor cores work for the other. Every sum has a fixed order. One warp fills the
// tiles by TMA copies.
#pragma once

#include "backends/cuda/hopper/long_heads/long_block.h"

#ifdef GENESIS_HOPPER

namespace genesis::cuda::hopper {

// Turns the scores of a thread's two rows into weights. Element 4 n + 2 i + j is row i, column 8 n + `column` + j of the
// tile.
template <class S>
struct LongWeigher {
  const LongBlock<S>& block;
  float slope;  // scale in units of log2
  int row, column = static_cast<int>(threadIdx.x) % 4 * 2;
  OnlineSoftmax<PowerOfTwo> softmax[2];  // the forward pass has one for each row
  QueryStatistics rows[2];               // the rows' own, if they are queries

  __device__ __forceinline__ explicit LongWeigher(const LongBlock<S>& block)
      : block(block),
        slope(static_cast<float>(block.s.scale) * kLog2E),
        row(block.row0 + static_cast<int>(threadIdx.x) % 128 / kLanes * 16 +
            static_cast<int>(threadIdx.x) % kLanes / 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (S::kPass == LongPass::kForward) rows[i].sees = block.range_of(row + 8 * i);
      if constexpr (S::kPass == LongPass::kQueries) rows[i] = block.statistics_of(block.head, row + 8 * i);
    }
  }

  // Forward: returns in `factors` by what the sums of each row so far must be multiplied.
  __device__ __forceinline__ void weigh(float (&scores)[16], int first, float (&factors)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& score = scores[4 * n + 2 * i + j];
          score = rows[i].sees.has(first + 8 * n + column + j) ? score * slope : -INFINITY;
        }
      factors[i] =
          softmax[i].template weigh<8>(4, [&](int k) -> float& { return scores[k / 2 * 4 + 2 * i + k % 2]; });
    }
  }
  // Gradients: replaces scores by p, or by ds with kHasSlopes; `dp` counts only then.
  __device__ __forceinline__ void weigh_rows(float (&scores)[16], const float (&dp)[16], int first) const {
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const QueryStatistics& query = rows[k / 2 % 2];
      scores[k] = weight(query, scores[k], dp[k], first + k / 4 * 8 + column + k % 2);
    }
  }
  __device__ __forceinline__ void weigh_columns(float (&scores)[16], const float (&dp)[16],
                                                const QueryStatistics (&columns)[kLongTile]) const {
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const QueryStatistics query = columns[8 * n + column + j];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int k = 4 * n + 2 * i + j;
          scores[k] = weight(query, scores[k], dp[k], row + 8 * i);
        }
      }
  }

 private:
  __device__ __forceinline__ float weight(const QueryStatistics& query, float score, float dp,
                                          int key) const {
    if (!query.sees.has(key)) return 0;
    const float p = approximate_power(fmaf(score, slope, -query.lse));
    return S::kHasSlopes ? p * (dp - query.delta) : p;
  }
};

template <class S>
struct LongConsumer {
  const LongBlock<S>& block;
  LongMemory<S> memory;
  LongBarriers& barriers;
  int half;  // the warpgroup has this half of the features
  LongWeigher<S> weigher{block};
  LongSums<S> sums;

  // The operand whose rows are summed; the other one is needed for scores only.
  static constexpr int kSummed = S::kHasSlopes ? 0 : 1;

  // Overwrites the rows of a tile that a key_length hides, which may be anything, by zeros: the weighted NaN is NaN. A
  // warpgroup does so for its own features.
  __device__ __forceinline__ void clear_hidden(uint32_t tile, int first) const {
    const int rows = static_cast<int>(block.visible.count) - first;
    if (S::kOfKeys || rows >= kLongTile || block.visible.count == block.s.keys) return;
    const int thread = static_cast<int>(threadIdx.x) % 128;
    for (int i = thread; i < S::kPanels / 2 * kLongTile * 8; i += 128) {
      if (i / 8 % kLongTile < rows) continue;
      const uint32_t to = tile + half * (S::kPanels / 2) * kLongTile * 128 + i * 16;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    wait_for_threads(1 + half, 128);
  }

  // Computes the scores of a tile and turns them into weights.
  __device__ __forceinline__ void weigh(LongWeights& weights, const RingStage<S::kStages>& stage, int i) {
    float scores[16] = {}, dp[16] = {};
    wait_for_phase(&barriers.filled[0][stage.index], stage.parity);
    if (S::kHasSlopes) wait_for_phase(&barriers.filled[1][stage.index], stage.parity);
    wgmma_fence();
    start_scores<S>(scores, memory.rows(0), memory.tile(0, stage.index));
    if constexpr (S::kHasSlopes) start_scores<S>(dp, memory.rows(1), memory.tile(1, stage.index));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(scores);
    if constexpr (S::kHasSlopes) pin(dp);
    arrive_as_warp(barriers.free[1 - kSummed][stage.index]);
    if constexpr (S::kPass == LongPass::kForward) {
      float factors[2];
      weigher.weigh(scores, block.row_of_tile(i), factors);
      rescale(factors);
    } else if constexpr (S::kOfKeys) {
      weigher.weigh_columns(scores, dp, memory.columns[stage.index]);
    } else {
      weigher.weigh_rows(scores, dp, block.row_of_tile(i));
    }
    weights.round(scores);
  }
  __device__ __forceinline__ void rescale(const float (&factors)[2]) {
    if (!__any_sync(0xFFFFFFFF, factors[0] != 1 || factors[1] != 1)) return;
#pragma unroll
    for (int k = 0; k < LongSums<S>::kCount; ++k) sums.at[k] *= factors[k / 2 % 2];
  }

  __device__ __forceinline__ void run() {
    RingStage<S::kStages> stage;
    if (block.count > 0) wait_for_phase(&barriers.rows, 0);
    for (int i = 0; i < block.count; ++i, stage.advance()) {
      LongWeights weights;
      weigh(weights, stage, i);
      const uint32_t tile = memory.tile(kSummed, stage.index);
      if (!S::kHasSlopes) wait_for_phase(&barriers.filled[1][stage.index], stage.parity);
      clear_hidden(tile, block.row_of_tile(i));
      pin(sums.at);
      wgmma_fence();
      sums.start_add(weights, tile, half);
      wgmma_commit_group();
      wgmma_wait_group<0>();
      pin(sums.at);
      arrive_as_warp(barriers.free[kSummed][stage.index]);
    }
    store();
  }

  __device__ __forceinline__ void store() const {
    const AttentionShape& s = block.s;
    const AttentionData& d = block.d;
    const auto put = [&](void* data, const HeadSteps& steps, const float(&by)[2], int64_t end) {
      sums.store(by, static_cast<__nv_bfloat16*>(data) + block.b * steps.batch + block.head * steps.head,
                 steps.row, block.row0, end, half);
    };
    const auto scale = static_cast<float>(s.scale);
    if constexpr (S::kPass == LongPass::kQueries) put(d.dq, s.q, {scale, scale}, s.queries);
    if constexpr (S::kPass == LongPass::kKeys) put(d.dk, s.k, {scale, scale}, s.keys);
    if constexpr (S::kPass == LongPass::kValues) put(d.dv, s.v, {1, 1}, s.keys);
    if constexpr (S::kPass == LongPass::kForward) {
      float by[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) by[i] = finish_row(i);
      put(d.y, s.y, by, s.queries);
    }
  }
  // Returns 1 / (sum of a row's weights), and stores the row's lse.
  __device__ __forceinline__ float finish_row(int i) const {
    constexpr float kLn2 = 0.6931471805599453f;
    const float all = reduce_lanes(weigher.softmax[i].sum, 4, Add{}), max = weigher.softmax[i].max;
    const int query = weigher.row + 8 * i;
    if (half == 0 && block.d.lse && threadIdx.x % 4 == 0 && query < block.s.queries)
      static_cast<float*>(
          block.d.lse)[(int64_t{block.b} * block.s.heads + block.head) * block.s.queries + query] =
          max == -INFINITY ? -INFINITY : max * kLn2 + logf(all);
    return all == 0 ? 0 : 1 / all;
  }
};

}  // namespace genesis::cuda::hopper

#endif
