// cached_attention for a batch of texts. Most of the bytes are the keys and values of all texts, so a block has all
// query heads of a key head and reads its keys once. Few blocks share a text: they form a cluster and merge their
// states through shared memory. The heads are the rows of the tensor cores' first operand; keys, and then values, are
// the second operand, eight columns each. Of both, a lane needs exactly the elements that it copies into shared
// memory itself, 16 bytes at a time, before the kernels ahead have ended. The lane that gets a score also multiplies
// the values by it, so only maxima and, at the end, sums move between lanes. The new key never comes from the cache:
// one block rotates it, adds it last and writes it.
#include <algorithm>

#include "backends/cuda/attention/key_states.h"
#include "backends/cuda/device/cluster.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/rotation_angle.h"
#include "backends/cuda/device/tensor_core.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/kernels/nn/cached_call.h"
#include "backends/cuda/kernels/nn/grouped/grouped_feed.h"

namespace genesis::cuda {
namespace {

using namespace grouped;

constexpr int64_t kWantedBlocks = 264, kMinKeys = 64, kMaxSplits = 8, kMinColumns = 16;

// A lane's state for head g: the weighted values of features 8 * (2t) + i and 8 * (2t + 1) + i of each block of 64,
// its share of the sum of weights, and the maximum over all lanes of the head.
template <class T, int kSize>
struct HeadState {
  using S = Sizes<kSize>;
  float y[S::kBlocks][8][4] = {};
  OnlineSoftmax<ScorePower<T>> softmax;

  template <int kDepth>
  __device__ __forceinline__ void add(const LaneFeed<T, kSize, kDepth>& feed, int stage,
                                      const Words (&q)[S::kQuarters], int position, float scale) {
    float scores[2][4] = {};
    constexpr Words kNone{0, 0, 0, 0};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int quarter = 0; quarter < S::kQuarters; ++quarter)
        multiply_32<T>(scores[half], q[quarter], kNone, feed.key(stage, half, quarter));
    const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int j = position + i / 2 * 8 + t * 2 + i % 2;
      float& score = scores[i / 2][i % 2];
      score = j < feed.end ? score * scale : -INFINITY;
    }
    const float factor = softmax.template weigh<4>(4, [&](int i) -> float& { return scores[i / 2][i % 2]; });
#pragma unroll
    for (int block = 0; block < S::kBlocks; ++block)
#pragma unroll
      for (int i = 0; i < 8; ++i) y[block][i][0] *= factor, y[block][i][1] *= factor;
    add_values(feed, stage, scores);
  }

 private:
  template <int kDepth>
  __device__ __forceinline__ void add_values(const LaneFeed<T, kSize, kDepth>& feed, int stage,
                                             const float (&weights)[2][4]) {
    const uint32_t low = pair_of<T>(weights[0][0], weights[0][1]),
                   high = pair_of<T>(weights[1][0], weights[1][1]);
#pragma unroll
    for (int block = 0; block < S::kBlocks; ++block) {
      const Words v[4] = {feed.value(stage, 0, block), feed.value(stage, 1, block),
                          feed.value(stage, 2, block), feed.value(stage, 3, block)};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint32_t selector = i % 2 ? 0x7632 : 0x5410;  // the same feature of two keys
        const uint32_t a = __byte_perm(word_of(v[0], i / 2), word_of(v[1], i / 2), selector),
                       b = __byte_perm(word_of(v[2], i / 2), word_of(v[3], i / 2), selector);
        multiply_16x8<T>(y[block][i], low, 0, high, 0, a, b);
      }
    }
  }
};

// The features of a head, then the maximum and the sum.
template <int kSize>
using StateRow = float[kSize + 2];

template <class T, int kSize>
__device__ __forceinline__ void put_state(HeadState<T, kSize>& state, StateRow<kSize>* rows) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, g = lane / 4, t = lane % 4;
  const float sum = reduce_lanes(state.softmax.sum, 4, Add{});
#pragma unroll
  for (int block = 0; block < kSize / 64; ++block)
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      rows[g][block * 64 + t * 16 + i] = state.y[block][i][0];
      rows[g][block * 64 + t * 16 + 8 + i] = state.y[block][i][1];
    }
  if (t == 0) rows[g][kSize] = state.softmax.max, rows[g][kSize + 1] = sum;
}

// The data of this token that a block needs.
template <class T, int kSize>
struct Token {
  T q[kHeads][kSize], k[kSize], v[kSize];
  float cosines[kSize / 2], sines[kSize / 2], scores[kHeads];  // `scores` are those of the new key
  StateRow<kSize> merged[kHeads];                              // state of the block

  __device__ __forceinline__ void find_angles(const CachedCall& c, int batch, int start) {
    for (int i = static_cast<int>(threadIdx.x); i < c.pairs; i += kAll)
      sine_and_cosine(static_cast<double>(start) * c.frequency(batch, i), sines[i], cosines[i]);
  }
  // Reads the rows of q and k, rotated and rounded to T, and v unchanged.
  __device__ __forceinline__ void read(const CachedCall& c, const BlockTask& at) {
    const int64_t row = int64_t{at.batch} * c.key_heads + at.key_head;
    constexpr int kUnits = kSize / 2;
    for (int i = static_cast<int>(threadIdx.x); i < (kHeads + 2) * kUnits; i += kAll) {
      const int head = i / kUnits, unit = i % kUnits;
      if (head < c.plan.group)
        rotate(c, static_cast<const T*>(c.q) + (row * c.plan.group + head) * kSize, unit, q[head]);
      else if (head < kHeads)
        q[head][2 * unit] = q[head][2 * unit + 1] = T(0);
      else if (head == kHeads)
        rotate(c, static_cast<const T*>(c.k) + row * kSize, unit, k);
      else
        for (int j = 2 * unit; j < 2 * unit + 2; ++j) v[j] = static_cast<const T*>(c.v)[row * kSize + j];
    }
  }
  // Computes the scores of the new key, one warp per head.
  __device__ __forceinline__ void score_new_key(const CachedCall& c) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    for (int head = static_cast<int>(threadIdx.x) / kLanes; head < c.plan.group; head += kWarps) {
      float sum = 0;
      for (int d = lane; d < kSize; d += kLanes) sum = fmaf(widen(q[head][d]), widen(k[d]), sum);
      sum = warp_sum(sum);
      if (lane == 0) scores[head] = sum * c.scale;
    }
  }

 private:
  __device__ __forceinline__ void rotate(const CachedCall& c, const T* x, int unit, T* to) const {
    const RotatedPair<T> pair(c, x, unit, cosines, sines);
    to[pair.low] = narrow<T>(pair.a);
    to[pair.high] = narrow<T>(pair.b);
  }
};

// Merges the states of all warps and, in the last block, the new key.
template <int kDepth, class T, int kSize>
__device__ __forceinline__ void merge_warps(const CachedCall& c, const BlockTask& at,
                                            const unsigned char* shared, Token<T, kSize>& token) {
  const bool has_new = at.split + 1 == c.plan.splits;
  for (int i = static_cast<int>(threadIdx.x); i < c.plan.group * kSize; i += kAll) {
    const int head = i / kSize, d = i % kSize;
    const auto* of_warps = reinterpret_cast<const StateRow<kSize>*>(shared);
    KeyState<T, 1> merged =
        merge_rows<T>(of_warps[head], kWarps, Sizes<kSize, kDepth>::kRing / sizeof(float), kSize, d);
    if (has_new) merged.merge(token.scores[head], 1, {widen(token.v[d])});
    token.merged[head][d] = merged.y[0];
    if (d == 0) token.merged[head][kSize] = merged.max, token.merged[head][kSize + 1] = merged.sum;
  }
}

// Merges this block's share of the heads' features over all blocks of the cluster, and writes it.
template <class T, int kSize>
__device__ __forceinline__ void merge_blocks(const CachedCall& c, const BlockTask& at,
                                             const Token<T, kSize>& token) {
  const int splits = c.plan.splits, count = c.plan.group * kSize, each = (count + splits - 1) / splits;
  T* y = static_cast<T*>(c.y) + (int64_t{at.batch} * c.key_heads + at.key_head) * count;
  for (int i = at.split * each + static_cast<int>(threadIdx.x); i < min(count, (at.split + 1) * each);
       i += kAll) {
    const float* row = token.merged[i / kSize];
    KeyState<T, 1> merged;
#pragma unroll 4
    for (int split = 0; split < splits; ++split)
      merged.merge(read_of_block(row + kSize, split, splits), read_of_block(row + kSize + 1, split, splits),
                   {read_of_block(row + i % kSize, split, splits)});
    y[i] = narrow<T>(merged.y[0] / merged.sum);
  }
}

template <class T, int kSize, int kDepth>
__device__ __forceinline__ HeadState<T, kSize> see_keys(const CachedCall& c, const BlockTask& at,
                                                        const LaneFeed<T, kSize, kDepth>& feed,
                                                        const Token<T, kSize>& token) {
  using S = Sizes<kSize, kDepth>;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  Words q[S::kQuarters];
#pragma unroll
  for (int quarter = 0; quarter < S::kQuarters; ++quarter)
    q[quarter] = *reinterpret_cast<const Words*>(&token.q[lane / 4][quarter * 32 + lane % 4 * 8]);
  HeadState<T, kSize> state;
  S::Ring::drain(
      at.begin + warp * kKeys, kWarps * kKeys, [&](int position) { return position < at.end; },
      [&](int stage, int position) { state.add(feed, stage, q, position, c.scale); },
      [&](int stage, int position) { feed.ask(stage, position); });
  return state;
}

template <class T, int kSize, int kDepth>
__global__ void __launch_bounds__(kAll, Sizes<kSize, kDepth>::kBlocksOfOne)
    attend_grouped(const __grid_constant__ CachedCall c) {
  using S = Sizes<kSize, kDepth>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(16) Token<T, kSize> token;
  pdl_launch_dependents();
  if (!c.independent) pdl_wait();
  const int64_t given = c.start[batch_of_block(c) * c.start_step];
  const int start = static_cast<int>(given < 0 ? 0 : given >= c.positions ? c.positions - 1 : given);
  const BlockTask task(c, start);
  const LaneFeed<T, kSize, kDepth> feed = feed_of<T, kSize, kDepth>(c, task, shared);
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  S::Ring::fill(task.begin + warp * kKeys, kWarps * kKeys,
                [&](int stage, int position) { feed.ask(stage, position); });
  token.find_angles(c, task.batch, start);
  if (c.independent) pdl_wait();
  if (given != start && task.split == 0 && task.key_head == 0 && threadIdx.x == 0)
    c.fault(given, c.positions);
  __syncthreads();
  token.read(c, task);
  __syncthreads();
  token.score_new_key(c);
  HeadState<T, kSize> state = see_keys<T, kSize, kDepth>(c, task, feed, token);
  put_state<T, kSize>(state, reinterpret_cast<StateRow<kSize>*>(shared + warp * S::kRing));
  __syncthreads();
  merge_warps<kDepth>(c, task, shared, token);
  if (task.split + 1 == c.plan.splits && threadIdx.x < kSize) {
    const int64_t at = (task.batch * c.positions + start) * c.key_heads * kSize +
                       int64_t{task.key_head} * kSize + threadIdx.x;
    static_cast<T*>(c.k_cache)[at] = token.k[threadIdx.x];
    static_cast<T*>(c.v_cache)[at] = token.v[threadIdx.x];
  }
  if (c.plan.splits > 1)
    wait_for_cluster();
  else
    __syncthreads();
  merge_blocks<T, kSize>(c, task, token);
  if (c.plan.splits > 1) wait_for_cluster();  // other blocks read this block's states
}

// --- launch

CachedPlan plan_of(const KernelQuery& query) {
  const auto q = query.inputs[0].shape.sizes(), cache = query.inputs[3].shape.sizes();
  CachedPlan plan;
  plan.group = static_cast<int>(q[2] / cache[2]);
  plan.columns = cache[0] * cache[2];
  const int64_t most = std::clamp<int64_t>(blocks_for(cache[1], kMinKeys), 1, kMaxSplits);
  while (2 * plan.splits <= most && 2 * plan.splits * plan.columns <= kWantedBlocks) plan.splits *= 2;
  return plan;
}

std::shared_ptr<const void> prepare_grouped_attention(const KernelQuery& query) {
  auto call = std::make_shared<CachedCall>(cached_call(query));
  call->plan = plan_of(query);
  return call;
}

template <class T, int kSize, int kDepth = 3>
void start_kernel(const Launch& launch, const CachedCall& c) {
  using S = Sizes<kSize, kDepth>;
  const auto kernel = attend_grouped<T, kSize, kDepth>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  const auto splits = static_cast<unsigned>(c.plan.splits);
  ClusterLaunch early(launch, static_cast<unsigned>(c.plan.columns) * splits, kAll, S::kSharedBytes, splits);
  cudaLaunchKernelEx(&early.config, kernel, c);
}

template <class T>
void start_type(const Launch& launch, const CachedCall& c, int64_t size) {
  if (size == 128) return start_kernel<T, 128>(launch, c);
  // One wave of blocks ends sooner than two (256 texts of 2 key heads are 512 blocks).
  const int64_t deep = Sizes<64, 4>::kBlocksOfOne * launch.multiprocessors;
  c.plan.columns* c.plan.splits > deep ? start_kernel<T, 64, 3>(launch, c)
                                       : start_kernel<T, 64, 4>(launch, c);
}

void run_grouped_attention(const KernelContext& k) {
  CachedCall c = with_data(k.prepared<CachedCall>(), k);
  const Launch& launch = launch_of(k);
  if (!launch.can_use_pdl) c.plan.splits = 1;  // older chips have no clusters
  const int64_t size = k.output(1).dim(3);
  k.output().dtype == DType::bf16 ? start_type<__nv_bfloat16>(launch, c, size)
                                  : start_type<__half>(launch, c, size);
}

std::optional<std::string> can_run_grouped_attention(const KernelQuery& query) {
  if (auto why = decline_cached(query)) return why;
  const auto q = query.inputs[0].shape.sizes(), cache = query.inputs[3].shape.sizes();
  const DType dtype = query.inputs[0].dtype;
  if (dtype != DType::bf16 && dtype != DType::f16) return "neither bf16 nor f16";
  if (cache[3] != 64 && cache[3] != 128) return "it takes head sizes 64 and 128";
  if (q[2] > kHeads * cache[2]) return "it takes up to 8 query heads of a key head";
  if (cache[0] * cache[2] < kMinColumns) return "few texts, whose query heads keep more blocks busy";
  return std::nullopt;
}

}  // namespace

KernelImpl grouped_attention_implementation() {
  return {.name = "grouped",
          .run = run_grouped_attention,
          .can_run = can_run_grouped_attention,
          .prepare = prepare_grouped_attention};
}

}  // namespace genesis::cuda
