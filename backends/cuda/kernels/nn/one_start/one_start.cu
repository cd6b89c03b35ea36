// The implementation one_start of cached_attention: rope, both cache updates, attention over split keys and the merge
// of the splits, in one kernel. Decoding is a chain of small kernels, so everything that does not need the kernels
// ahead comes first: the cosines and sines of this position, and the first keys and values of the cache. The new key
// never comes from the cache: every block that needs it rotates it itself, and one of them writes it. How keys are
// split depends on their number alone; the last block of a head to finish merges the splits, in order.
#include "backends/cuda/attention/key_states.h"
#include "backends/cuda/device/rotation_angle.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/kernels/nn/cached_call.h"
#include "backends/cuda/runtime/runtime.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/cached_attention.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 4, kAll = kWarps * kLanes, kAhead = 4;
constexpr int kMaxSplits = 64, kMinKeys = 128;
constexpr int64_t kWantedBlocks = 264;

// A block has one query head and a range of keys. The query heads of a group each read the same keys, from the L2
// cache after the first time: the latency of one block matters more than these reads.
CachedPlan plan_of(const KernelQuery& query) {
  const auto q = query.inputs[0].shape.sizes(), cache = query.inputs[3].shape.sizes();
  CachedPlan plan;
  plan.group = static_cast<int>(q[2] / std::max<int64_t>(1, cache[2]));
  plan.columns = cache[0] * cache[2] * plan.group;
  const int64_t most = std::clamp<int64_t>(blocks_for(cache[1], kMinKeys), 1, kMaxSplits);
  plan.splits =
      static_cast<int>(std::clamp<int64_t>(kWantedBlocks / std::max<int64_t>(1, plan.columns), 1, most));
  plan.partial_rows = plan.columns * plan.splits;
  return plan;
}

// The work of a block: a split of the keys that a column (a query head of a text) attends to.
struct BlockTask {
  int split, column, in_group, key_head, batch;

  __device__ explicit BlockTask(const CachedCall& c) {
    const int block = static_cast<int>(blockIdx.x);
    split = block % c.plan.splits;
    column = block / c.plan.splits;
    in_group = column % c.plan.group;
    key_head = column / c.plan.group % c.key_heads;
    batch = column / c.plan.group / c.key_heads;
  }
  __device__ bool is_first_of_row(const CachedCall& c) const {
    return split == 0 && column == batch * c.key_heads * c.plan.group;
  }
};

// The keys of a block: [begin, end) of the visible keys in the cache before `start`; the last split also has the new
// key.
struct KeyRange {
  int begin, end, used;

  __device__ KeyRange(int start, int window, int split, int splits) {
    const int first = window == 0 ? 0 : max(0, start + 1 - window), count = start - first;
    const int each = max((count + splits - 1) / splits, kMinKeys);
    used = max(1, (count + each - 1) / each);
    begin = min(start, first + split * each);
    end = min(start, begin + each);
  }
};

template <class T>
__device__ Words load_words(const T* at, bool packed) {
  if (packed) return *reinterpret_cast<const Words*>(at);
  float elements[kKeyPack<T>];
#pragma unroll
  for (int i = 0; i < kKeyPack<T>; ++i) elements[i] = widen(at[i]);
  return words_of<T>(elements);
}

// The lanes that hold a row of kHeadSize features, with a pack each. Their number is a power of two, so the last ones may
// have no features.
template <class T, int kHeadSize>
struct LanesOfRow {
  static constexpr int kSize = kHeadSize, N = kKeyPack<T>, kPacks = kSize / N;
  static constexpr int kSet = kPacks <= 8 ? 8 : kPacks <= 16 ? 16 : 32;
  static constexpr bool kFills = kSet == kPacks;
  static_assert(kSize % N == 0 && kPacks <= kSet);

  __device__ static bool has_features(int lane_at) { return kFills || lane_at < kSize; }
};

// kAhead keys and values of each set of lanes, from j0 on; positions past the end repeat the last key.
template <class T, class L>
struct Round {
  static constexpr int kSets = kAll / L::kSet, kKeys = kSets * kAhead;
  Words k[kAhead] = {}, v[kAhead] = {};

  __device__ void load(const T* keys, const T* values, int64_t step, int j0, int set, int end, bool packed,
                       bool has_features) {
    if (!L::kFills && !has_features) return;
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t j = min(j0 + set + u * kSets, end - 1);
      k[u] = load_words(keys + j * step, packed);
      v[u] = load_words(values + j * step, packed);
    }
  }
};

template <class T, class L>
__device__ __forceinline__ void add_round(KeyState<T>& state, const float (&q)[kKeyPack<T>],
                                          const Round<T, L>& round, int j0, int set, int end, float scale) {
  const auto to_scores = [&](float(&scores)[kAhead]) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      scores[u] = j0 + set + u * Round<T, L>::kSets < end ? scores[u] * scale : -INFINITY;
  };
  add_keys<T, L::kSet, kAhead>(
      state, q, [&](int u) { return pack_of<T>(round.k[u]); }, to_scores,
      [&](int u, int i) { return element_of<T>(round.v[u], i); });
}

// Computes the block's query and the new key, rotated and rounded to T.
template <class T, int kSize>
__device__ void rotate_rows(const CachedCall& c, const BlockTask& at, const float* cosines,
                            const float* sines, float (&rows)[2][kSize]) {
  constexpr int kUnits = kSize / 2;
  for (int i = threadIdx.x; i < 2 * kUnits; i += kAll) {
    const int row = i / kUnits, unit = i % kUnits;
    const T* x = row == 0
                     ? static_cast<const T*>(c.q) + int64_t{at.column} * kSize
                     : static_cast<const T*>(c.k) + (int64_t{at.batch} * c.key_heads + at.key_head) * kSize;
    const RotatedPair<T> pair(c, x, unit, cosines, sines);
    rows[row][pair.low] = pair.a;
    rows[row][pair.high] = pair.b;
  }
}

// Loads a lane's features of the value of the new token.
template <class T, int kSize>
__device__ __forceinline__ void load_new_value(const CachedCall& c, const BlockTask& at, int lane_at,
                                               T (&value)[kKeyPack<T>]) {
  const T* row = static_cast<const T*>(c.v) + (int64_t{at.batch} * c.key_heads + at.key_head) * kSize;
#pragma unroll
  for (int i = 0; i < kKeyPack<T>; ++i) value[i] = row[lane_at + i];
}

// Merges the splits of a column in order. The first warp computes their weights, then all threads add their values,
// which other blocks have written.
template <class T, int kSize>
__device__ void merge_column(const CachedCall& c, const BlockTask& at, int used) {
  __shared__ __align__(16) float weights[kMaxSplits];
  __shared__ float total_of_all;
  const int64_t first = int64_t{at.column} * c.plan.splits;
  const auto* statistics = reinterpret_cast<const float2*>(c.partials + c.plan.partial_rows * kSize) + first;
  static_assert(kMaxSplits == 2 * kLanes);
  if (const int lane = static_cast<int>(threadIdx.x); lane < kLanes) {
    float2 both[2];  // maximum, sum
    float max = -INFINITY, total = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int split = lane + i * kLanes;
      both[i] = split < used ? __ldcg(statistics + split) : float2{-INFINITY, 0};
      max = MaxOrNan{}(both[i].x, max);
    }
    const ScorePower<T> power(reduce_lanes(max, kLanes, MaxOrNan{}));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float weight = both[i].x == -INFINITY ? 0 : power(both[i].x);
      weights[lane + i * kLanes] = weight;
      total += weight * both[i].y;
    }
    total = reduce_lanes(total, kLanes, Add{});
    if (lane == 0) total_of_all = total;
  }
  __syncthreads();
  for (int d = threadIdx.x; d < kSize; d += kAll) {
    const float* values = c.partials + first * kSize + d;
    float y = 0;
#pragma unroll 8  // loads in flight
    for (int split = 0; split < used; ++split)
      y = fmaf(weights[split], __ldcg(values + int64_t{split} * kSize), y);
    static_cast<T*>(c.y)[int64_t{at.column} * kSize + d] = narrow<T>(y / total_of_all);
  }
}

// Adds the new key and its value to the state; the last split calls this. One query head of the key head also writes
// the caches.
template <class T, class L>
__device__ __forceinline__ void add_new_key(KeyState<T>& state, const float (&q)[kKeyPack<T>],
                                            const float* rotated_key, const T (&new_v)[kKeyPack<T>],
                                            float scale, bool writes, T* k_cache, T* v_cache) {
  constexpr int N = kKeyPack<T>;
  const bool has_features = L::has_features(static_cast<int>(threadIdx.x) % L::kSet * N);
  Pack<T, N> k;
  float v[N];
#pragma unroll
  for (int i = 0; i < N; ++i) k.at[i] = narrow<T>(has_features ? rotated_key[i] : 0), v[i] = widen(new_v[i]);
  const float score = dot<T, L::kSet>(q, k) * scale;
  if (threadIdx.x >= L::kSet) return;
  state.merge(score, 1.0f, v);
  if (!writes || !has_features) return;
#pragma unroll
  for (int i = 0; i < N; ++i) k_cache[i] = k.at[i], v_cache[i] = new_v[i];
}

// Merges the states of all warps and writes the result: to y if the column has only this split, otherwise to the
// partial results.
template <class T, class L>
__device__ __forceinline__ void put_split(const CachedCall& c, const BlockTask& at, bool only,
                                          const KeyState<T>& state) {
  constexpr int kSize = L::kSize, kFeatures = L::kSet * L::N;
  __shared__ float of_warp[kWarps][kFeatures + 2];
  put_warp<T, L::kSet>(state, of_warp[threadIdx.x / kLanes]);
  __syncthreads();
  const int64_t partial = int64_t{at.column} * c.plan.splits + at.split;
  for (int d = threadIdx.x; d < kSize; d += kAll) {
    const KeyState<T, 1> whole = merge_rows<T>(of_warp[0], kWarps, kFeatures + 2, kFeatures, d);
    if (only) {
      static_cast<T*>(c.y)[int64_t{at.column} * kSize + d] = narrow<T>(whole.y[0] / whole.sum);
      continue;
    }
    c.partials[partial * kSize + d] = whole.y[0];
    if (d != 0) continue;
    float* statistics = c.partials + c.plan.partial_rows * kSize + partial * 2;
    statistics[0] = whole.max;
    statistics[1] = whole.sum;
  }
}

// Returns to every thread whether this block is the last of its column to finish; if so, it sees what the others
// wrote.
__device__ __forceinline__ bool is_last_of_column(const CachedCall& c, const BlockTask& at, int used) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&c.tickets[at.column], 1u) + 1 == static_cast<unsigned>(used);
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

template <class T, class L>
__global__ void __launch_bounds__(kAll) attend_cached(const __grid_constant__ CachedCall c) {
  constexpr int N = kKeyPack<T>, kSize = L::kSize, kSet = L::kSet;
  __shared__ float rows[2][kSize], cosines[kSize / 2], sines[kSize / 2];
  pdl_launch_dependents();
  if (!c.independent) pdl_wait();
  const BlockTask task(c);
  const int64_t given = c.start[task.batch * c.start_step];
  const int start = static_cast<int>(given < 0 ? 0 : given >= c.positions ? c.positions - 1 : given);
  const KeyRange range(start, c.window, task.split, c.plan.splits);
  const int lane_at = static_cast<int>(threadIdx.x) % kSet * N, set = static_cast<int>(threadIdx.x) / kSet;
  const bool has_features = L::has_features(lane_at);
  const int64_t step = int64_t{c.key_heads} * kSize,
                cache_at = task.batch * c.positions * step + int64_t{task.key_head} * kSize + lane_at;
  T *k_cache = static_cast<T*>(c.k_cache) + cache_at, *v_cache = static_cast<T*>(c.v_cache) + cache_at;
  if (task.split >= range.used) return;  // split 0 of each column remains and waits
  Round<T, L> round;
  if (range.begin < range.end)
    round.load(k_cache, v_cache, step, range.begin, set, range.end, c.packed, has_features);
  for (int i = threadIdx.x; i < c.pairs; i += kAll)
    sine_and_cosine(static_cast<double>(start) * c.frequency(task.batch, i), sines[i], cosines[i]);
  if (c.independent) pdl_wait();
  if (given != start && task.is_first_of_row(c) && threadIdx.x == 0) c.fault(given, c.positions);
  T new_v[N] = {};  // loaded together with the rows that are rotated
  if (has_features) load_new_value<T, kSize>(c, task, lane_at, new_v);
  __syncthreads();  // until cosines and sines are written
  rotate_rows<T, kSize>(c, task, cosines, sines, rows);
  __syncthreads();

  float q[N];
  KeyState<T> state;
#pragma unroll
  for (int i = 0; i < N; ++i) q[i] = has_features ? rows[0][lane_at + i] : 0;
  // All lanes of a warp run the same number of rounds, because they exchange sums.
  for (int j0 = range.begin; j0 < range.end; j0 += Round<T, L>::kKeys) {
    if (j0 != range.begin) round.load(k_cache, v_cache, step, j0, set, range.end, c.packed, has_features);
    add_round<T, L>(state, q, round, j0, set, range.end, c.scale);
  }
  if (task.split + 1 == range.used)
    add_new_key<T, L>(state, q, rows[1] + lane_at, new_v, c.scale, task.in_group == 0, k_cache + start * step,
                      v_cache + start * step);
  put_split<T, L>(c, task, range.used == 1, state);
  if (range.used == 1 || !is_last_of_column(c, task, range.used)) return;
  merge_column<T, kSize>(c, task, range.used);
  if (threadIdx.x == 0) c.tickets[task.column] = 0;  // for the next run
}

// --- launch

struct Prepared {
  CachedCall call;
  std::shared_ptr<std::byte> tickets;
};

std::shared_ptr<const void> prepare_one_start(const KernelQuery& query) {
  auto made = std::make_shared<Prepared>(Prepared{cached_call(query), nullptr});
  CachedCall& c = made->call;
  c.plan = plan_of(query);
  made->tickets = allocate(current_device(), c.plan.columns * int64_t{sizeof(unsigned)});
  c.tickets = reinterpret_cast<unsigned*>(made->tickets.get());
  return made;
}

template <class T, int kSize>
void start_size(const KernelContext& k, const CachedCall& c) {
  const int64_t blocks = c.plan.columns * c.plan.splits;
  Launch launch = launch_of(k);
  launch.shares_memory = true;  // the neighboring products have it, too
  const auto kernel = attend_cached<T, LanesOfRow<T, kSize>>;
  start_with_pdl(launch, kernel, static_cast<unsigned>(blocks), kAll, 0, c);
}

template <class T>
void start_type(const KernelContext& k, const CachedCall& c, int64_t size) {
  if (size == 64) return start_size<T, 64>(k, c);
  if (size == 80) return start_size<T, 80>(k, c);
  if (size == 96) return start_size<T, 96>(k, c);
  if (size == 128) return start_size<T, 128>(k, c);
  if constexpr (sizeof(T) == 2) start_size<T, 256>(k, c);
}

void run_one_start(const KernelContext& k) {
  const CachedCall c = with_data(k.prepared<Prepared>().call, k);
  const int64_t size = k.output(1).dim(3);
  if (k.output().dtype == DType::bf16) return start_type<__nv_bfloat16>(k, c, size);
  if (k.output().dtype == DType::f16) return start_type<__half>(k, c, size);
  start_type<float>(k, c, size);
}

int64_t one_start_scratch(const KernelQuery& query) {
  return (CheckedSize(plan_of(query).partial_rows) * (CheckedSize(query.inputs[3].shape[3].value()) + 2) * 4)
      .value();
}

std::optional<std::string> can_run_one_start(const KernelQuery& query) {
  if (auto why = decline_cached(query)) return why;
  const int64_t size = query.inputs[3].shape[3].value();
  const bool in_16_bits = query.inputs[0].dtype != DType::f32;
  if (size != 64 && size != 80 && size != 96 && size != 128 && !(in_16_bits && size == 256))
    return "it takes head sizes 64, 80, 96, 128 and, in 16 bits, 256";
  return std::nullopt;
}

}  // namespace

KernelImpl one_start_implementation() {
  return {.name = "one_start",
          .run = run_one_start,
          .can_run = can_run_one_start,
          .scratch_bytes = one_start_scratch,
          .prepare = prepare_one_start};
}

}  // namespace genesis::cuda
