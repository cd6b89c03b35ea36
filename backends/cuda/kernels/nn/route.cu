// sort_groups and route. Pairs are sorted by counting: threads rank the pairs of their block, in an order that is that of the pairs,
// so that results do not depend on which thread comes first. The few rows of decoding take one block and one launch.
#include <limits>

#include "backends/cuda/device/number.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/route_choice.h"
#include "backends/cuda/device/warp_scan.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/ops/nn/grouped_matmul.h"

namespace genesis::cuda {
namespace {

constexpr int kBlock = 512, kWarps = kBlock / kLanes;  // pairs of a block
constexpr int kMaxGroups = 2 * kBlock;

// The outputs of sort_groups, and the sizes of its input.
struct Sorted {
  int64_t *rows, *sorted, *places, *offsets;
  int64_t pairs, chosen;
  int groups;

  __device__ void write(int64_t pair, int64_t id, int64_t place) const {
    rows[place] = pair / chosen;
    sorted[place] = id;
    places[pair] = place;
  }
};

// The numbers that a block counts: pairs by warp and group, then by group.
struct Counts {
  uint16_t of_warp[kWarps * kMaxGroups];
  int of_group[kMaxGroups];
};

// Returns how many pairs of the block with this thread's id are before its own; id -1: it has none. Counts the block's pairs by
// group. Warps from number `warps` on have no pairs. All threads of the block call it.
__device__ int rank_in_block(int id, int groups, Counts& counts, int warps = kWarps) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  for (int i = static_cast<int>(threadIdx.x); i < warps * groups; i += kBlock) counts.of_warp[i] = 0;
  __syncthreads();
  const unsigned same = __match_any_sync(~0u, id);
  const int before = __popc(same & ((1u << lane) - 1));
  if (id >= 0 && before == 0) counts.of_warp[warp * groups + id] = static_cast<uint16_t>(__popc(same));
  __syncthreads();
  for (int g = static_cast<int>(threadIdx.x); g < groups; g += kBlock) {
    int sum = 0;
    for (int w = 0; w < warps; ++w) {
      const int n = counts.of_warp[w * groups + g];
      counts.of_warp[w * groups + g] = static_cast<uint16_t>(sum);
      sum += n;
    }
    counts.of_group[g] = sum;
  }
  __syncthreads();
  return id < 0 ? 0 : counts.of_warp[warp * groups + id] + before;
}

// Replaces the numbers by the sums of those before them. All threads of the block call it.
__device__ void sum_before(int* numbers, int groups) {
  const int at = 2 * static_cast<int>(threadIdx.x);
  const int first = at < groups ? numbers[at] : 0, second = at + 1 < groups ? numbers[at + 1] : 0;
  const BlockScan<int> scan = block_scan(first + second);
  if (at < groups) numbers[at] = scan.before;
  if (at + 1 < groups) numbers[at + 1] = scan.before + first;
  __syncthreads();
}

// Sorts pairs that one block holds; thread i has pair i.
__device__ void sort_in_block(int id, const Sorted& to, Counts& counts) {
  const int warps = static_cast<int>((to.pairs + kLanes - 1) / kLanes);
  const int rank = rank_in_block(id, to.groups, counts, warps);
  sum_before(counts.of_group, to.groups);
  for (int g = static_cast<int>(threadIdx.x); g <= to.groups; g += kBlock)
    to.offsets[g] = g < to.groups ? counts.of_group[g] : to.pairs;
  if (id >= 0) to.write(threadIdx.x, id, counts.of_group[id] + rank);
}

// Returns the id of a pair, -1 behind the last one. An id that cannot be is reported and counts as 0.
__device__ int id_of(const int64_t* ids, int64_t pair, const Sorted& to, FaultReport fault) {
  if (pair >= to.pairs) return -1;
  const int64_t id = ids[pair];
  if (id >= 0 && id < to.groups) return static_cast<int>(id);
  fault(id, to.groups);
  return 0;
}

__global__ void __launch_bounds__(kBlock) sort_few(const int64_t* ids, Sorted to, FaultReport fault) {
  __shared__ Counts counts;
  begin_in_order();
  sort_in_block(id_of(ids, threadIdx.x, to, fault), to, counts);
}

// --- many pairs: counts by block, their sums over blocks, then the places

__device__ int64_t pair_of_thread() { return static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x; }

__global__ void __launch_bounds__(kBlock)
    count_pairs(const int64_t* ids, Sorted to, int* of_block, FaultReport fault) {
  __shared__ Counts counts;
  rank_in_block(id_of(ids, pair_of_thread(), to, fault), to.groups, counts);
  for (int g = static_cast<int>(threadIdx.x); g < to.groups; g += kBlock)
    of_block[static_cast<int64_t>(blockIdx.x) * to.groups + g] = counts.of_group[g];
}

__global__ void __launch_bounds__(kBlock)
    sum_blocks(Sorted to, int blocks, const int* __restrict__ of_block, int* __restrict__ before_block) {
  __shared__ int totals[kMaxGroups];
  for (int g = static_cast<int>(threadIdx.x); g < to.groups; g += kBlock) {
    int sum = 0;
#pragma unroll 8
    for (int64_t b = 0; b < blocks; ++b) {
      before_block[b * to.groups + g] = sum;
      sum += of_block[b * to.groups + g];
    }
    totals[g] = sum;
  }
  __syncthreads();
  sum_before(totals, to.groups);
  for (int g = static_cast<int>(threadIdx.x); g <= to.groups; g += kBlock)
    to.offsets[g] = g < to.groups ? totals[g] : to.pairs;
}

__global__ void __launch_bounds__(kBlock)
    place_pairs(const int64_t* ids, Sorted to, const int* before_block, FaultReport fault) {
  __shared__ Counts counts;
  const int64_t pair = pair_of_thread();
  const int id = id_of(ids, pair, to, fault), rank = rank_in_block(id, to.groups, counts);
  if (id < 0) return;
  to.write(pair, id, to.offsets[id] + before_block[static_cast<int64_t>(blockIdx.x) * to.groups + id] + rank);
}

// One thread sorts pairs of any number of groups; offsets[g] counts the pairs of g, then is their next place.
__global__ void sort_slowly(const int64_t* ids, Sorted to, FaultReport fault) {
  for (int g = 0; g <= to.groups; ++g) to.offsets[g] = 0;
  if (to.groups == 0) {
    if (to.pairs > 0) fault(ids[0], 0);
    return;
  }
  for (int64_t pair = 0; pair < to.pairs; ++pair) ++to.offsets[id_of(ids, pair, to, fault)];
  int64_t sum = 0;
  for (int g = 0; g <= to.groups; ++g) {
    const int64_t n = to.offsets[g];
    to.offsets[g] = sum;
    sum += n;
  }
  for (int64_t pair = 0; pair < to.pairs; ++pair) {
    const int id = id_of(ids, pair, to, fault);
    to.write(pair, id, to.offsets[id]++);
  }
  for (int g = to.groups; g > 0; --g) to.offsets[g] = to.offsets[g - 1];
  to.offsets[0] = 0;
}

// The outputs of a node from number `first` on.
Sorted sorted_of(const KernelContext& c, int first) {
  const TensorView &places = c.output(first + 2), &offsets = c.output(first + 3);
  return {c.output(first).as<int64_t>(),
          c.output(first + 1).as<int64_t>(),
          places.as<int64_t>(),
          offsets.as<int64_t>(),
          places.numel(),
          std::max<int64_t>(1, places.dim(-1)),
          static_cast<int>(offsets.numel() - 1)};
}

int64_t counts_bytes(int64_t pairs, int64_t groups) {
  return pairs <= kBlock || groups > kMaxGroups
             ? 0
             : 2 * blocks_for(pairs, kBlock) * groups * int64_t{sizeof(int)};
}

// Sorts ids; `scratch` has counts_bytes().
void sort_ids(const KernelContext& c, const int64_t* ids, const Sorted& to, std::byte* scratch) {
  const FaultReport fault = launch_of(c).fault;
  if (to.groups > kMaxGroups || to.groups == 0) return start(c, sort_slowly, 1, 1, 0, ids, to, fault);
  if (to.pairs <= kBlock) return start_with_pdl(c, sort_few, 1, kBlock, 0, ids, to, fault);
  const int64_t blocks = blocks_for(to.pairs, kBlock);
  auto *of_block = reinterpret_cast<int*>(scratch), *before_block = of_block + blocks * to.groups;
  start(c, count_pairs, blocks, kBlock, 0, ids, to, of_block, fault);
  start(c, sum_blocks, 1, kBlock, 0, to, static_cast<int>(blocks), of_block, before_block);
  start(c, place_pairs, blocks, kBlock, 0, ids, to, before_block, fault);
}

void run_sort_groups(const KernelContext& c) {
  sort_ids(c, c.input(0).as<const int64_t>(), sorted_of(c, 0), c.scratch);
}
int64_t sort_groups_scratch(const KernelQuery& query) {
  return counts_bytes(query.inputs[0].numel(), query.outputs[3].shape[0].value() - 1);
}

// --- route

struct RouteCall {
  RouteRule rule;
  const float* logits;
  float* factors;
  int rows;
};

// The logits of a row: lane l of a warp has those of the experts l, l + 32, ...
template <int kEach>
__device__ void read_logits(const RouteCall& call, int row, float (&logits)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = i * kLanes + static_cast<int>(threadIdx.x) % kLanes;
    logits[i] = expert < call.rule.experts
                    ? call.logits[static_cast<int64_t>(row) * call.rule.experts + expert]
                    : -INFINITY;
  }
}

template <int kEach>
__global__ void __launch_bounds__(kBlock) route_few(const __grid_constant__ RouteCall call, Sorted to) {
  __shared__ Counts counts;
  __shared__ int ids[kBlock];
  begin_in_order();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < call.rows; row += kWarps) {
    float scores[kEach], score = 0;
    read_logits(call, row, scores);
    make_scores(call.rule, scores);
    uint32_t keys[kEach];
    make_keys(call.rule, scores, keys);
    if (call.rule.groups > 1) keep_best_groups(call.rule, keys);
    const int expert = choose_experts(call.rule, keys, scores, score);
    const float factor = route_factor(call.rule, score);
    if (lane >= call.rule.k) continue;
    ids[row * call.rule.k + lane] = expert;
    call.factors[row * call.rule.k + lane] = factor;
  }
  __syncthreads();
  sort_in_block(threadIdx.x < to.pairs ? ids[threadIdx.x] : -1, to, counts);
}

RouteCall call_of(const KernelContext& c) {
  const auto& op = c.attributes<ops::Route>();
  const TensorView& logits = c.input(0);
  RouteRule rule = route_rule(op, logits.dim(-1));
  if (c.num_inputs() > 1) rule.bias = c.input(1).as<const float>();
  return {rule, logits.as<const float>(), c.output(0).as<float>(),
          static_cast<int>(logits.numel() / logits.dim(-1))};
}

void run_route_few(const KernelContext& c) {
  const RouteCall call = call_of(c);
  const auto kernel = call.rule.experts <= 128   ? route_few<4>
                      : call.rule.experts <= 256 ? route_few<8>
                                                 : route_few<16>;
  start_with_pdl(c, kernel, 1, kBlock, 0, call, sorted_of(c, 1));
}

constexpr int kMaxExperts = 16 * kLanes;

std::optional<std::string> decline_few(const KernelQuery& query) {
  const TensorType& logits = query.inputs[0];
  if (logits.shape[logits.shape.rank() - 1].value() > kMaxExperts)
    return "more than " + std::to_string(kMaxExperts) + " experts";
  if (query.outputs[1].numel() > kBlock) return "more than " + std::to_string(kBlock) + " pairs";
  if (from_attributes<ops::Route>(query.attributes).k > kLanes) return "more than 32 experts of a row";
  return std::nullopt;
}

// --- route of any sizes: a thread chooses the experts of a row

// The scores of a row, computed whenever they are read.
struct ScoresOfRow {
  const float* x;
  RouteScores kind;
  float greatest = -INFINITY, sum = 0;

  __device__ ScoresOfRow(const float* row, int n, RouteScores scores) : x(row), kind(scores) {
    for (int i = 0; i < n; ++i) greatest = fmaxf(greatest, x[i]);
    for (int i = 0; i < n; ++i) sum += exponential<float>(x[i] - greatest);
  }
  __device__ float operator()(int i) const {
    if (kind == RouteScores::kSigmoid) return 1 / (1 + exponential<float>(-x[i]));
    return kind == RouteScores::kSoftmax ? exponential<float>(x[i] - greatest) / sum : x[i];
  }
};

// The keys by which the experts of a row are chosen.
struct KeysOfRow {
  const ScoresOfRow& scores;
  const float* bias;
  int each;               // experts of a group
  uint32_t groups = ~0u;  // a bit for each group that counts

  __device__ uint32_t operator()(int i) const {
    if (!(groups >> (i / each) & 1)) return score_key(-INFINITY);
    return score_key(bias ? scores(i) + bias[i] : scores(i));
  }
};

struct Choice {
  uint32_t key = ~0u;
  int at = -1;
};

// Returns the choice behind `last` among the places from `first` on: that of the greatest key, of equal ones the first.
template <class Keys>
__device__ Choice next_choice(const Keys& keys, int first, int end, const Choice& last) {
  Choice best{0, first};
  for (int i = first; i < end; ++i) {
    const uint32_t key = keys(i);
    const bool was_chosen = key > last.key || (key == last.key && i <= last.at);
    if (!was_chosen && key > best.key) best = {key, i};
  }
  return best;
}

// Returns a bit for each of the groups with the greatest sums.
__device__ uint32_t best_groups(const RouteRule& rule, const KeysOfRow& keys) {
  uint32_t sums[ops::Route::kMaxGroups], best = 0;
  for (int g = 0; g < rule.groups; ++g) {
    float sum = 0;
    Choice last;
    for (int j = 0; j < rule.best_of_group; ++j) {
      last = next_choice(keys, g * keys.each, (g + 1) * keys.each, last);
      sum += score_of(last.key);
    }
    sums[g] = score_key(sum);
  }
  Choice last;
  for (int j = 0; j < rule.chosen_groups; ++j) {
    last = next_choice([&](int g) { return sums[g]; }, 0, rule.groups, last);
    best |= 1u << last.at;
  }
  return best;
}

// Makes factors of the scores of a row's chosen experts.
__device__ void make_factors(const RouteRule& rule, float* factors) {
  if (rule.scores == RouteScores::kSoftmaxOfChosen) {
    const ScoresOfRow softmax(factors, rule.k, RouteScores::kSoftmax);
    for (int j = 0; j < rule.k; ++j) factors[j] = softmax(j);
  }
  float sum = rule.least_sum;
  for (int j = 0; j < rule.k; ++j) sum += factors[j];
  for (int j = 0; j < rule.k; ++j)
    factors[j] = (rule.normalized ? factors[j] / sum : factors[j]) * rule.factor;
}

__global__ void route_rows(RouteCall call, int64_t* ids) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= call.rows) return;
  const RouteRule rule = call.rule;
  const ScoresOfRow scores(call.logits + row * rule.experts, rule.experts, rule.scores);
  KeysOfRow keys{scores, rule.bias, rule.experts / rule.groups};
  if (rule.groups > 1) keys.groups = best_groups(rule, keys);
  Choice last;
  for (int j = 0; j < rule.k; ++j) {
    last = next_choice(keys, 0, rule.experts, last);
    ids[row * rule.k + j] = last.at;
    call.factors[row * rule.k + j] = scores(last.at);
  }
  make_factors(rule, call.factors + row * rule.k);
}

int64_t ids_bytes(int64_t pairs) { return (pairs * int64_t{sizeof(int64_t)} + 63) / 64 * 64; }

void run_route_rows(const KernelContext& c) {
  const RouteCall call = call_of(c);
  auto* ids = reinterpret_cast<int64_t*>(c.scratch);
  start(c, route_rows, blocks_for(call.rows, kThreads), kThreads, 0, call, ids);
  sort_ids(c, ids, sorted_of(c, 1), c.scratch + ids_bytes(c.output(1).numel()));
}
int64_t route_rows_scratch(const KernelQuery& query) {
  const int64_t pairs = query.outputs[1].numel();
  return ids_bytes(pairs) + counts_bytes(pairs, query.outputs[4].shape[0].value() - 1);
}

std::optional<std::string> decline_groups(const KernelQuery& query) {
  if (query.outputs[3].shape[0].value() - 1 > std::numeric_limits<int>::max())
    return "more than 2^31 - 1 groups";
  return std::nullopt;
}

constexpr OpKernel kKernels[] = {
    {"sort_groups",
     {.name = "counts",
      .run = run_sort_groups,
      .can_run = decline_groups,
      .scratch_bytes = sort_groups_scratch}},
    {"route", {.name = "one_block", .run = run_route_few, .can_run = decline_few}},
    {"route",
     {.name = "rows", .run = run_route_rows, .scratch_bytes = route_rows_scratch, .decomposed = true}}};

}  // namespace

std::span<const OpKernel> route_kernels() { return kKernels; }

}  // namespace genesis::cuda
