// Attention of few queries against many keys, as in decoding. All rows of a group of query heads together read the
// cache of keys and values once, at the memory's bandwidth. A few lanes hold one key's row, each lane has several
// keys in flight, and every set of lanes keeps its own running maxima and sums. The visible keys are shared evenly
// among blocks, whose number depends on the shapes; a second kernel merges the blocks' results in order.
#include "backends/cuda/attention/split/attention_split.h"

#include "backends/cuda/attention/key_states.h"
#include "backends/cuda/attention/visible_keys.h"
#include "backends/cuda/device/packs.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 4, kAll = kWarps * kLanes;
constexpr int64_t kMaxQueries = 8, kWantedBlocks = 264, kMinKeys = 64, kMaxSplits = 64;
constexpr int64_t kMaxKeys = int64_t{1} << 24;
constexpr int kMergeWarps = 4;

// The division of the work among blocks, which depends on the shape alone.
struct SplitPlan {
  int64_t rows;        // rows of queries of one key head
  int64_t group_rows;  // rows of a block
  int64_t chunks;      // blocks that share the rows of one key head
  int64_t splits;      // blocks that share the keys of such a chunk
};

// Returns how many of `rows` rows a block takes; the kernel exists for these three numbers. Long rows fill the registers.
int64_t rows_of_block(int64_t rows, bool long_rows) { return rows <= 1 ? 1 : rows <= 4 || long_rows ? 4 : 8; }

constexpr int64_t kLongRow = 256;  // features that 32 lanes hold with one pack each, in 16 bits
bool has_long_rows(const AttentionShape& s) { return std::max(s.size, s.v_size) > kLongRow; }

SplitPlan plan_of(const AttentionShape& s) {
  SplitPlan plan{};
  plan.rows = s.heads / std::max<int64_t>(s.key_heads, 1) * s.queries;
  plan.group_rows = rows_of_block(plan.rows, has_long_rows(s));
  plan.chunks = blocks_for(plan.rows, plan.group_rows);
  const int64_t columns = std::max<int64_t>(1, s.batch * s.key_heads * plan.chunks);
  plan.splits =
      std::clamp<int64_t>(kWantedBlocks / columns, 1, std::clamp<int64_t>(s.keys / kMinKeys, 1, kMaxSplits));
  return plan;
}

// The distribution of the visible keys to splits, which depends on their number alone. A few keys are not worth many
// blocks and a long merge.
struct Shares {
  int first, end;  // keys that any query sees
  int each, used;  // keys per split; splits that have any

  __device__ static Shares of(const AttentionShape& s, const VisibleKeys& visible, int splits) {
    const int first = static_cast<int>(visible.begin(s, 0)), end = static_cast<int>(visible.count),
              count = end - first;
    const int each = max((count + splits - 1) / splits, static_cast<int>(kMinKeys));
    return {first, end, each, (count + each - 1) / each};
  }
};

// Scores of one query with the keys that a set of lanes has at once.
template <int kAhead>
struct KeyScores {
  float at[kAhead];
};

// Applies the mask to scores, except those that are -inf: such keys may not exist. `at` is the first key's index in
// the mask for head 0 and query 0; `step` is the distance to the next key's. Not inlined, because the kernel's loops
// would have it many times.
template <int kAhead>
__device__ __noinline__ KeyScores<kAhead> masked(KeyScores<kAhead> scores, DType dtype, const void* mask,
                                                 int64_t at, int64_t step, int64_t head_step,
                                                 int64_t query_step, int first_head, int row, int queries) {
  at += (first_head + row / queries) * head_step + row % queries * query_step;
#pragma unroll
  for (int u = 0; u < kAhead; ++u)
    if (scores.at[u] != -INFINITY) scores.at[u] = with_mask(scores.at[u], dtype, mask, at + u * step);
  return scores;
}

// The work of a block: some query rows of one key head, and one split of its keys.
struct Block {
  int split, column, first_row, key_head, b, first_head, begin, end;
  VisibleKeys visible;

  __device__ __forceinline__ Block(const AttentionShape& s, const AttentionData& data, const SplitPlan& plan)
      : visible(s, data, row_of_batch(s, plan)) {
    const int splits = static_cast<int>(plan.splits), chunks = static_cast<int>(plan.chunks),
              key_heads = static_cast<int>(s.key_heads);
    split = static_cast<int>(blockIdx.x) % splits;
    column = static_cast<int>(blockIdx.x) / splits;
    first_row = column % chunks * static_cast<int>(plan.group_rows);
    key_head = column / chunks % key_heads;
    b = row_of_batch(s, plan);
    first_head = key_head * (static_cast<int>(s.heads) / key_heads);
    const Shares shares = Shares::of(s, visible, splits);
    begin = min(shares.end, shares.first + split * shares.each);
    end = min(shares.end, begin + shares.each);
  }

 private:
  __device__ static int row_of_batch(const AttentionShape& s, const SplitPlan& plan) {
    return static_cast<int>(blockIdx.x) / static_cast<int>(plan.splits) / static_cast<int>(plan.chunks) /
           static_cast<int>(s.key_heads);
  }
};

// The parts of rows that a lane holds: kPacks packs, kSet lanes a row. Fewer lanes with more packs each repeat less work:
// all lanes of a row compute its weight. Heads of kSet * kPacks packs fill their lanes; those of other sizes leave
// some packs without features.
template <class T, int kSetOfRow, int kPacksOfLane, bool kFillsLanes>
struct Lanes {
  static constexpr bool kFills = kFillsLanes;
  static constexpr int kSet = kSetOfRow, kPacks = kPacksOfLane, N = kPacks * kKeyPack<T>,
                       kAllFeatures = kSet * N;
  static constexpr int kAhead = kPacks == 1 ? 4 : 2;  // keys in flight
  using Row = KeyRow<T, kSet, kPacks>;
  using State = KeyState<T, N>;

  __device__ static int size(int64_t given) { return kFills ? kAllFeatures : static_cast<int>(given); }
};

// The block's rows of q, as one lane of a set holds them.
template <class T, class L, int G>
struct QueryRows {
  static constexpr int N = L::N;
  int queries, first, last;  // rows first to last; rows beyond repeat the last one
  float q[G][N];
  int begins[G], ends[G];  // visible keys of each row

  __device__ __forceinline__ QueryRows(const AttentionShape& s, const AttentionData& data,
                                       const SplitPlan& plan, const Block& block, int lane)
      : queries(static_cast<int>(s.queries)), first(block.first_row), last(static_cast<int>(plan.rows) - 1) {
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const int query = row(g) % queries, head = block.first_head + row(g) / queries;
      typename L::Row row_of_q;
      row_of_q.template load<L::kFills>(
          static_cast<const T*>(data.q) + block.b * s.q.batch + head * s.q.head + query * s.q.row, lane,
          L::size(s.size));
#pragma unroll
      for (int i = 0; i < N; ++i) q[g][i] = row_of_q[i];
      begins[g] = static_cast<int>(block.visible.begin(s, query));
      ends[g] = min(block.end, static_cast<int>(block.visible.end(s, query)));
    }
  }
  __device__ __forceinline__ int row(int g) const { return min(first + g, last); }
};

// Turns the products of row g with keys j, j + kSets and so on into scores: scaled, with the mask, and -inf for keys
// that it does not see.
template <int kSets, class T, class L, int G>
__device__ __forceinline__ void make_scores(const AttentionShape& s, const AttentionData& data,
                                            const Block& block, const QueryRows<T, L, G>& rows, int g, int j,
                                            float (&products)[L::kAhead]) {
  constexpr int kAhead = L::kAhead;
  KeyScores<kAhead> scores;
#pragma unroll
  for (int u = 0; u < kAhead; ++u) {
    const int key = j + u * kSets;
    const bool sees = key < rows.ends[g] && key >= rows.begins[g];
    scores.at[u] = sees ? products[u] * static_cast<float>(s.scale) : -INFINITY;
  }
  if (data.mask) {
    const int64_t step = s.mask_steps[3];
    scores = masked(scores, s.mask_dtype, data.mask, block.b * s.mask_steps[0] + j * step, kSets * step,
                    s.mask_steps[1], s.mask_steps[2], block.first_head, rows.row(g), rows.queries);
  }
#pragma unroll
  for (int u = 0; u < kAhead; ++u) products[u] = scores.at[u];
}

// Merges the states of all warps and writes them to memory, [row][size + 2].
template <class T, class L, int G>
__device__ __forceinline__ void put_partials(const typename L::State (&states)[G], int size,
                                             float* partials) {
  constexpr int kFeatures = L::kAllFeatures, kRow = kFeatures + 2;
  __shared__ float of_warp[kWarps][G][kRow];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    typename L::State state = states[g];
    merge_sets<T, L::kSet>(state);
    float* row = of_warp[threadIdx.x / kLanes][g];
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (lane >= L::kSet) continue;
#pragma unroll
    for (int i = 0; i < L::N; ++i) row[L::Row::feature(lane, i)] = state.y[i];
    if (lane == 0) row[kFeatures] = state.max, row[kFeatures + 1] = state.sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < G * size; i += kAll) {
    const int g = i / size, d = i % size;
    const KeyState<T, 1> state = merge_rows<T>(of_warp[0][g], kWarps, G * kRow, kFeatures, d);
    float* to = partials + g * (size + 2);
    to[d] = state.y[0];
    if (d == 0) to[size] = state.max, to[size + 1] = state.sum;
  }
}

// A block has G rows. Partial results are [column][split][row][v_size + 2]; the last two are maximum and sum.
template <class T, class L, int G>
__global__ void __launch_bounds__(kAll)
    split_keys(AttentionShape s, AttentionData data, SplitPlan plan, float* partials) {
  begin_in_order();
  constexpr int kSet = L::kSet, kSets = kAll / kSet, kAhead = L::kAhead;
  const Block block(s, data, plan);
  if (block.begin >= block.end) return;
  const int lane = static_cast<int>(threadIdx.x) % kSet, set = static_cast<int>(threadIdx.x) / kSet;
  const int size = L::size(s.size), v_size = L::size(s.v_size);
  const QueryRows<T, L, G> rows(s, data, plan, block, lane);
  typename L::State states[G];
  const T* keys = static_cast<const T*>(data.k) + block.b * s.k.batch + block.key_head * s.k.head;
  const T* values = static_cast<const T*>(data.v) + block.b * s.v.batch + block.key_head * s.v.head;

  // All lanes of a warp run the same number of rounds, because they exchange sums.
  for (int j0 = block.begin; j0 < block.end; j0 += kSets * kAhead) {
    typename L::Row k[kAhead], v[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t j = min(j0 + set + u * kSets, block.end - 1);
      k[u].template load<L::kFills>(keys + j * s.k.row, lane, size);
      v[u].template load<L::kFills>(values + j * s.v.row, lane, v_size);
    }
#pragma unroll
    for (int g = 0; g < G; ++g) {
      add_keys<T, kSet, kAhead>(
          states[g], rows.q[g], [&](int u) { return k[u]; },
          [&](float(&scores)[kAhead]) { make_scores<kSets>(s, data, block, rows, g, j0 + set, scores); },
          [&](int u, int i) { return v[u][i]; });
    }
  }
  put_partials<T, L>(states, v_size,
                     partials + (int64_t{block.column} * plan.splits + block.split) * G * (v_size + 2));
}

// Merges the splits in order; a warp has one row of y and 32 features.
template <class T>
__global__ void __launch_bounds__(kMergeWarps* kLanes)
    merge_splits(AttentionShape s, AttentionData data, SplitPlan plan, const float* partials) {
  begin_in_order();
  const int64_t slices = (s.v_size + kLanes - 1) / kLanes;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kMergeWarps + threadIdx.x / kLanes;
  if (i >= s.batch * s.heads * s.queries * slices) return;
  const int64_t row = static_cast<int>(i) / static_cast<int>(slices),
                d = static_cast<int>(i) % static_cast<int>(slices) * kLanes + threadIdx.x % kLanes;
  const int row32 = static_cast<int>(row), queries = static_cast<int>(s.queries),
            heads = static_cast<int>(s.heads);
  const int query = row32 % queries, h = row32 / queries % heads, b = row32 / queries / heads;
  const int group = heads / static_cast<int>(s.key_heads), key_head = h / group,
            in_group = h % group * queries + query;
  const int64_t column = (b * s.key_heads + key_head) * plan.chunks + in_group / plan.group_rows;
  const int64_t width = s.v_size + 2, step = plan.group_rows * width;
  const float* from = partials + column * plan.splits * step + in_group % plan.group_rows * width;
  const int used = Shares::of(s, VisibleKeys(s, data, b), static_cast<int>(plan.splits)).used;
  const KeyState<T, 1> state = merge_rows<T>(from, used, step, s.v_size, d);
  const bool blind = state.max == -INFINITY;
  if (d < s.v_size)
    static_cast<T*>(data.y)[b * s.y.batch + h * s.y.head + query * s.y.row + d] =
        narrow<T>(blind ? 0.0f : state.y[0] / state.sum);
  if (d == 0 && data.lse)
    static_cast<float*>(data.lse)[row] = blind ? state.max : state.max + logf(state.sum);
}

__global__ void write_lengths(AttentionShape s, AttentionData data, int32_t* queries, int32_t* keys) {
  for (int64_t b = threadIdx.x; b < s.batch; b += blockDim.x) {
    const VisibleKeys visible(s, data, b);
    // Queries beyond the keys are padding: without them, causality counts from the existing keys.
    const int64_t beyond = visible.length - visible.count;
    queries[b] = static_cast<int32_t>(max(int64_t{1}, s.queries - beyond));
    keys[b] = static_cast<int32_t>(visible.count);
  }
}

template <class T, class L, int G>
void start_split(const AttentionShape& s, const AttentionData& d, const SplitPlan& plan) {
  auto* partials = reinterpret_cast<float*>(d.scratch);
  const int64_t blocks = s.batch * s.key_heads * plan.chunks * plan.splits;
  Launch launch;
  launch.stream = d.stream;
  launch.early = d.early;
  start_with_pdl(launch, split_keys<T, L, G>, static_cast<unsigned>(blocks), kAll, 0, s, d, plan, partials);
  const int64_t merges = blocks_for(s.rows() * blocks_for(s.v_size, kLanes), kMergeWarps);
  start_with_pdl(launch, merge_splits<T>, static_cast<unsigned>(merges), kMergeWarps * kLanes, 0, s, d, plan,
                 partials);
}

// Starts the kernel with the lanes for blocks of one row, of four and of eight.
template <class T, class One, class Four, class Eight>
void start_rows(const AttentionShape& s, const AttentionData& d) {
  const SplitPlan plan = plan_of(s);
  if (plan.group_rows == 1) return start_split<T, One, 1>(s, d, plan);
  if (plan.group_rows == 4) return start_split<T, Four, 4>(s, d, plan);
  if constexpr (!std::is_void_v<Eight>) start_split<T, Eight, 8>(s, d, plan);
}

// Heads whose rows fill kSet lanes with a pack each.
template <class T, int kSet>
void start_filled(const AttentionShape& s, const AttentionData& d) {
  using L = Lanes<T, kSet, 1, true>;
  start_rows<T, L, L, L>(s, d);
}

// Other heads, in 16 bits: as many packs a lane as leave registers for its rows. With four packs a lane, one row was
// slower than with two.
template <class T>
void start_others(const AttentionShape& s, const AttentionData& d) {
  const int64_t longest = std::max(s.size, s.v_size);
  using Four128 = Lanes<T, 8, 2, false>;
  using Eight128 = Lanes<T, 16, 1, false>;
  using Four256 = Lanes<T, 16, 2, false>;
  using Eight256 = Lanes<T, 32, 1, false>;
  using Four512 = Lanes<T, 32, 2, false>;
  if (longest <= 96) return start_rows<T, Lanes<T, 4, 3, false>, Four128, Eight128>(s, d);
  if (longest <= 128) return start_rows<T, Four128, Four128, Eight128>(s, d);
  if (longest <= 192) return start_rows<T, Lanes<T, 8, 3, false>, Four256, Eight256>(s, d);
  if (longest <= kLongRow) return start_rows<T, Four256, Four256, Eight256>(s, d);
  start_rows<T, Four512, Four512, void>(s, d);
}

template <class T>
void start_type(const AttentionShape& s, const AttentionData& d) {
  const int64_t size = s.size == s.v_size ? s.size : 0;
  if constexpr (sizeof(T) == 2) {
    if (size == 64) return start_filled<T, 8>(s, d);
    if (size == 128) return start_filled<T, 16>(s, d);
    start_others<T>(s, d);
  } else {
    using Others = Lanes<T, 32, 2, false>;
    if (size == 64) return start_filled<T, 16>(s, d);
    if (size == 128) return start_filled<T, 32>(s, d);
    start_rows<T, Others, Others, Others>(s, d);
  }
}

}  // namespace

std::optional<std::string> split_attention_declines(const AttentionShape& s) {
  if (s.dtype == DType::f64) return "it computes in f32, the operands are f64";
  if (s.queries > kMaxQueries) return "it takes few queries";
  if (s.rows() == 0) return "there is nothing to compute";
  if (s.keys > kMaxKeys || s.rows() > kMaxKeys) return "it counts in 32 bits";
  const bool f32 = s.dtype == DType::f32;
  const int64_t longest = std::max(s.size, s.v_size), shortest = std::min(s.size, s.v_size);
  if (shortest < 64 || longest > (f32 ? 256 : 512) || s.size % 8 != 0 || s.v_size % 8 != 0)
    return "it takes head sizes that are multiples of 8, from 64 to 512 (256 in f32)";
  return std::nullopt;
}

int64_t split_attention_scratch(const AttentionShape& s) {
  const SplitPlan plan = plan_of(s);
  return (CheckedSize(s.batch) * s.key_heads * plan.chunks * plan.splits * plan.group_rows *
          (CheckedSize(s.v_size) + 2) * 4)
      .value();
}

void write_attention_lengths(const AttentionShape& s, const AttentionData& d, int32_t* queries,
                             int32_t* keys) {
  write_lengths<<<1, kAll, 0, d.stream>>>(s, d, queries, keys);
}

void run_split_attention(const AttentionShape& s, const AttentionData& d) {
  if (s.dtype == DType::bf16) return start_type<__nv_bfloat16>(s, d);
  if (s.dtype == DType::f16) return start_type<__half>(s, d);
  start_type<float>(s, d);
}

}  // namespace genesis::cuda
