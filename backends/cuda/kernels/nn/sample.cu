// sample_logits: samples a token per row of logits. Weights are summed as integers (backends/common/sampling.h), so
// many blocks may share a row and the choice still equals the CPU's. A row of a large vocabulary takes four launches:
// the greatest logit; a histogram of the weights; the list of the few tokens that top-k or top-p can keep; one block
// that chooses among those. Each starts while the one ahead ends (PDL). The first clears the buffers that the second
// adds to, so that no other launch is needed. If the settings ask for the greatest logit alone, the two kernels in
// the middle end at once: settings are data, and one captured graph serves them all.
#include "backends/cuda/device/draw.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/reduce.h"
#include "schema/core/checked_size.h"
#include "schema/ops/tensor/random.h"

namespace genesis::cuda {
namespace {

constexpr int kPerThread = 8;
constexpr int64_t kSegment = int64_t{kThreads} * kPerThread;  // tokens per block
constexpr int kChooseThreads = 1024;

// State of one row; find_greatest clears it.
struct RowState {
  Sum listed;        // entries of the list
  Sum mass[kBins];   // weights, by the upper bits of the key
  Sum count[kBins];  // numbers of tokens, by the same bits
};

struct Settings {
  double temperature, top_p, min_p;
  int64_t top_k;
};

struct Sampling {
  int64_t n = 0, segments = 0;  // segments per row
  int bits = 0, index_bits = 0;
  const int64_t* rng = nullptr;
  int64_t rng_rows = 0;  // rows with a seed and a step of their own; 0: all share one of both
  uint32_t stream = 0;
  Settings fixed{};
  const float *temperature = nullptr, *top_p = nullptr, *min_p = nullptr;  // null: use `fixed`
  const int64_t* top_k = nullptr;
  int64_t temperature_step = 0, top_k_step = 0, top_p_step = 0, min_p_step = 0;  // from row to row
  FaultReport fault;
  RowState* rows = nullptr;
  Sum* segment_greatest = nullptr;  // [rows, segments]: key << 32 | ~index of the first greatest logit
  Sum* segment_mass = nullptr;      // [rows, segments]
  uint64_t* lists = nullptr;        // [rows, n]
  int64_t* chosen = nullptr;        // [rows]

  __device__ Settings settings(int64_t row) const {
    if (temperature == nullptr) return fixed;
    return {static_cast<double>(temperature[row * temperature_step]),
            static_cast<double>(top_p[row * top_p_step]),
            min_p == nullptr ? 0.0 : static_cast<double>(min_p[row * min_p_step]), top_k[row * top_k_step]};
  }
  // A row with its own seed and step draws as if it were the only row.
  __device__ uint32_t word(int64_t row) const {
    if (rng_rows == 0) return word_of_draw(rng, stream, row);
    const int64_t own[2] = {rng[row], rng[rng_rows + row]};
    return word_of_draw(own, stream, 0);
  }
};

struct GreaterSum {
  __device__ Sum operator()(Sum a, Sum b) const { return b > a ? b : a; }
};

// Returns the greatest over all segments of a row; every warp computes it by itself.
__device__ inline Sum greatest_of_row(const Sampling& s, int64_t row) {
  Sum best = 0;
  for (int64_t i = threadIdx.x % kLanes; i < s.segments; i += kLanes)
    best = GreaterSum{}(best, s.segment_greatest[row * s.segments + i]);
  return reduce_lanes(best, kLanes, GreaterSum{});
}

// The sampling rule of a row; known once its greatest logit is known.
struct Rule {
  bool greedy, cut_k, cut_p;
  float max, scale, least;
  int bits;
  uint32_t first_greatest;

  __device__ Rule(const Sampling& s, const Settings& settings, int64_t row)
      : cut_k(settings.top_k > 0 && settings.top_k < s.n),
        cut_p(settings.top_p < 1),
        scale(static_cast<float>(1 / settings.temperature)),
        least(fminf(static_cast<float>(settings.min_p), 1.0f)),
        bits(s.bits) {
    const Sum greatest = greatest_of_row(s, row);
    first_greatest = ~static_cast<uint32_t>(greatest);
    max = float_of_key(static_cast<uint32_t>(greatest >> 32));
    greedy = !(settings.temperature > 0) || fabsf(max) == INFINITY;
  }
  __device__ float exponential(uint32_t key) const { return sampling_exp((float_of_key(key) - max) * scale); }
  __device__ Sum weight(uint32_t key) const { return whole_weight(exponential(key), bits); }
  // Returns the weight, or 0 for a token that min-p excludes. Top-p is applied first and counts such tokens.
  __device__ Sum likely_weight(uint32_t key) const {
    const float weight = exponential(key);
    return weight >= least ? whole_weight(weight, bits) : 0;
  }
};

// Returns a logit's key. A NaN, which find_greatest reports, counts as the greatest.
template <class T>
__device__ uint32_t key_at(const T* logits, int64_t i) {
  const auto x = static_cast<float>(widen(logits[i]));
  return sampling_key(x != x ? INFINITY : x);
}

template <class T>
__device__ bool is_nan_at(const T* logits, int64_t i) {
  const auto x = static_cast<float>(widen(logits[i]));
  return x != x;
}

// Calls body(index) for the tokens of this block's segment.
template <class Body>
__device__ void each_token(const Sampling& s, const Body& body) {
  const int64_t first = blockIdx.x % s.segments * kSegment, last = min(s.n, first + kSegment);
  for (int64_t i = first + threadIdx.x; i < last; i += kThreads) body(i);
}

template <class T>
__global__ void __launch_bounds__(kThreads) find_greatest(Sampling s, const T* logits) {
  begin_in_order();
  const int64_t row = blockIdx.x / s.segments, segment = blockIdx.x % s.segments;
  static_assert(sizeof(RowState) % sizeof(Sum) == 0);
  auto* words = reinterpret_cast<Sum*>(s.rows + row);
  for (int64_t i = segment * kThreads + threadIdx.x; i < static_cast<int64_t>(sizeof(RowState) / sizeof(Sum));
       i += s.segments * kThreads)
    words[i] = 0;
  Sum best = 0;
  bool has_nan = false;
  each_token(s, [&](int64_t i) {
    const Sum mine = Sum{key_at(logits + row * s.n, i)} << 32 | static_cast<uint32_t>(~i);
    best = GreaterSum{}(best, mine);
    has_nan = has_nan || is_nan_at(logits + row * s.n, i);
  });
  if (has_nan) s.fault.nan_logit();
  best = reduce_group(best, kThreads, GreaterSum{});
  if (threadIdx.x == 0) s.segment_greatest[blockIdx.x] = best;
}

// Sums the weights by the upper bits of the key, and by segment.
template <class T>
__global__ void __launch_bounds__(kThreads) add_weights(Sampling s, const T* logits) {
  __shared__ Sum mass[kBins];
  __shared__ uint32_t count[kBins];
  begin_in_order();
  const int64_t row = blockIdx.x / s.segments;
  RowState& state = s.rows[row];
  const Rule rule(s, s.settings(row), row);
  if (rule.greedy) return;
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) mass[i] = 0, count[i] = 0;
  __syncthreads();
  Sum sum = 0;
  each_token(s, [&](int64_t i) {
    const uint32_t key = key_at(logits + row * s.n, i);
    const bool is_cut = rule.cut_k || rule.cut_p;
    const Sum weight = is_cut ? rule.weight(key) : rule.likely_weight(key);
    sum += weight;
    if (!is_cut) return;
    atomicAdd(&count[key >> 21], 1u);
    if (weight > 0) atomicAdd(&mass[key >> 21], weight);
  });
  const Sum total = block_scan(sum).total;  // also a barrier: all counts are complete
  __syncthreads();
  if (threadIdx.x == 0) s.segment_mass[blockIdx.x] = total;
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) {
    if (count[i] == 0) continue;
    atomicAdd(&state.count[i], Sum{count[i]});
    atomicAdd(&state.mass[i], mass[i]);
  }
}

// Lists the tokens that may survive the thresholds: those down to the bin in which the first threshold falls.
template <class T>
__global__ void __launch_bounds__(kThreads) list_tokens(Sampling s, const T* logits) {
  __shared__ Sum first_entry;
  begin_in_order();
  const int64_t row = blockIdx.x / s.segments;
  RowState& state = s.rows[row];
  const Settings settings = s.settings(row);
  const Rule rule(s, settings, row);
  if (rule.greedy || (!rule.cut_k && !rule.cut_p)) return;
  const Sum* bins = rule.cut_k ? state.count : state.mass;
  Sum wanted = static_cast<Sum>(settings.top_k);
  if (!rule.cut_k) wanted = nucleus_of(sum_over(kBins, [&](int64_t i) { return bins[i]; }), settings.top_p);
  const Found threshold = find_running(kBins, wanted - 1, [&](int64_t i) { return bins[kBins - 1 - i]; });
  const auto lowest = static_cast<uint32_t>(kBins - 1 - threshold.at);

  Sum mine = 0;
  each_token(s, [&](int64_t i) { mine += key_at(logits + row * s.n, i) >> 21 >= lowest; });
  const BlockScan<Sum> scan = block_scan(mine);
  if (threadIdx.x == 0) first_entry = atomicAdd(&state.listed, scan.total);
  __syncthreads();
  uint64_t* to = s.lists + row * s.n + first_entry + scan.before;
  each_token(s, [&](int64_t i) {
    const uint32_t key = key_at(logits + row * s.n, i);
    if (key >> 21 >= lowest) *to++ = uint64_t{key} << 32 | static_cast<uint32_t>(i);
  });
}

// Keeps tokens with a greater key, and those with this key up to an index.
struct Threshold {
  uint32_t key = 0, last = 0xffffffffu;

  __device__ bool keeps(uint64_t entry) const {
    return key_in(entry) > key || (key_in(entry) == key && index_in(entry) <= last);
  }
};

struct Chooser {
  const Sampling& s;
  const Rule& rule;
  Sum* mass;  // shared memory for kBins
  const uint64_t* list;
  int64_t count;

  // Returns the index at which the running sum of weight_of(entry), in the order of the indices, reaches `wanted`.
  template <class WeightOf>
  __device__ uint32_t index_reaching(Sum wanted, const WeightOf& weight_of) const {
    const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << s.index_bits) - 1);
    const auto field = [&](uint64_t entry) { return ~index_in(entry) & mask; };
    return ~select_greatest(mass, list, count, s.index_bits, wanted, field, weight_of).field & mask;
  }

  // Returns the threshold that keeps a weight of `wanted`. Equal keys have equal weights, `each`.
  template <class WeightOf>
  __device__ Threshold threshold_at(Sum wanted, const WeightOf& weight_of) const {
    const Selected found = select_greatest(mass, list, count, 32, wanted, key_in, weight_of);
    const auto of_key = [&](uint64_t entry) {
      return key_in(entry) == found.field && weight_of(entry) > 0 ? Sum{1} : Sum{0};
    };
    const Sum tied = sum_over(count, [&](int64_t i) { return of_key(list[i]); }), each = found.at / tied;
    const Sum ties = (wanted - found.above + each - 1) / each;
    return {found.field, ties < tied ? index_reaching(ties, of_key) : 0xffffffffu};
  }
};

__device__ int64_t choose_from_list(Sum* mass, const Sampling& s, const Rule& rule, const Settings& settings,
                                    int64_t row, uint32_t word) {
  const Chooser chooser{s, rule, mass, s.lists + row * s.n, static_cast<int64_t>(s.rows[row].listed)};
  Threshold threshold;
  const auto kept_weight = [&](uint64_t entry) {
    return threshold.keeps(entry) ? rule.weight(key_in(entry)) : Sum{0};
  };
  if (rule.cut_k)
    threshold = chooser.threshold_at(static_cast<Sum>(settings.top_k), [](uint64_t) { return Sum{1}; });
  if (rule.cut_p) {
    const Sum total =
        rule.cut_k ? sum_over(chooser.count, [&](int64_t i) { return kept_weight(chooser.list[i]); })
                   : sum_over(s.segments, [&](int64_t i) { return s.segment_mass[row * s.segments + i]; });
    const Threshold both = chooser.threshold_at(nucleus_of(total, settings.top_p), kept_weight);
    __syncthreads();
    threshold = both.key > threshold.key ? both : Threshold{both.key, min(both.last, threshold.last)};
  }
  const auto drawn_weight = [&](uint64_t entry) {
    return threshold.keeps(entry) ? rule.likely_weight(key_in(entry)) : Sum{0};
  };
  const Sum total = sum_over(chooser.count, [&](int64_t i) { return drawn_weight(chooser.list[i]); });
  return chooser.index_reaching(share_of(total, word) + 1, drawn_weight);
}

template <class T>
__device__ int64_t choose_from_row(const Sampling& s, const Rule& rule, const T* logits, int64_t row,
                                   uint32_t word) {
  const Sum* masses = s.segment_mass + row * s.segments;
  const auto mass_of = [&](int64_t i) { return masses[i]; };
  const Sum target = share_of(sum_over(s.segments, mass_of), word);
  const Found segment = find_running(s.segments, target, mass_of);
  const int64_t first = segment.at * kSegment, count = min(kSegment, s.n - first);
  __syncthreads();  // until every thread has read the first result
  return first + find_running(count, target - segment.before, [&](int64_t i) {
                   return rule.likely_weight(key_at(logits, first + i));
                 }).at;
}

template <class T>
__global__ void __launch_bounds__(kChooseThreads) choose(Sampling s, const T* logits) {
  __shared__ Sum mass[kBins];
  begin_in_order();
  const int64_t row = blockIdx.x;
  const Settings settings = s.settings(row);
  const Rule rule(s, settings, row);
  const uint32_t word = s.word(row);
  int64_t chosen = rule.first_greatest;
  if (!rule.greedy)
    chosen = rule.cut_k || rule.cut_p ? choose_from_list(mass, s, rule, settings, row, word)
                                      : choose_from_row(s, rule, logits + row * s.n, row, word);
  if (threadIdx.x == 0) s.chosen[row] = chosen;
}

struct SampleShape {
  int64_t rows, n, segments;

  int64_t state_bytes() const { return rows * static_cast<int64_t>(sizeof(RowState)); }
  int64_t bytes() const {
    const CheckedSize count = rows;
    return (count * sizeof(RowState) + count * segments * 16 + count * n * 8).value();
  }
};

SampleShape sample_shape(int64_t numel, int64_t n) {
  return {n == 0 ? 0 : numel / n, n, blocks_for(n, kSegment)};
}

int64_t step_of(const TensorView& setting) { return setting.numel() == 1 ? 0 : 1; }

void take_settings(const KernelContext& c, Sampling& s) {
  s.temperature = c.input(2).as<const float>(), s.temperature_step = step_of(c.input(2));
  s.top_k = c.input(3).as<const int64_t>(), s.top_k_step = step_of(c.input(3));
  s.top_p = c.input(4).as<const float>(), s.top_p_step = step_of(c.input(4));
  if (c.num_inputs() == 6) s.min_p = c.input(5).as<const float>(), s.min_p_step = step_of(c.input(5));
}

void run_sample_logits(const KernelContext& c) {
  const TensorView& logits = c.input(1);
  const auto& op = c.attributes<ops::SampleLogits>();
  const SampleShape shape = sample_shape(logits.numel(), logits.dim(-1));
  if (shape.rows == 0) return;
  Sampling s;
  s.n = shape.n, s.segments = shape.segments;
  s.bits = weight_bits(shape.n);
  s.index_bits = 62 - s.bits;  // bits of numbers below n, rounded up to a power of two
  s.rng = c.input(0).as<const int64_t>(), s.stream = static_cast<uint32_t>(op.stream);
  s.rng_rows = c.input(0).rank == 1 ? 0 : shape.rows;
  s.fixed = {op.temperature, op.top_p, op.min_p, op.top_k};
  s.fault = launch_of(c).fault;
  if (c.num_inputs() >= 5) take_settings(c, s);
  s.rows = reinterpret_cast<RowState*>(c.scratch);
  s.segment_mass = reinterpret_cast<Sum*>(c.scratch + shape.state_bytes());
  s.segment_greatest = s.segment_mass + shape.rows * shape.segments;
  s.lists = reinterpret_cast<uint64_t*>(s.segment_greatest + shape.rows * shape.segments);
  s.chosen = c.output().as<int64_t>();
  dispatch_float(logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = logits.as<const T>();
    const auto rows = static_cast<unsigned>(shape.rows),
               blocks = static_cast<unsigned>(shape.rows * shape.segments);
    const Launch behind = behind_own_kernel(c);
    start_with_pdl(launch_of(c), find_greatest<T>, blocks, kThreads, 0, s, x);
    start_with_pdl(behind, add_weights<T>, blocks, kThreads, 0, s, x);
    start_with_pdl(behind, list_tokens<T>, blocks, kThreads, 0, s, x);
    start_with_pdl(behind, choose<T>, rows, kChooseThreads, 0, s, x);
  });
}

int64_t sample_scratch(const KernelQuery& query) {
  const Shape& logits = query.inputs[1].shape;
  return sample_shape(query.inputs[1].numel(), logits[logits.rank() - 1].value()).bytes();
}

constexpr OpKernel kOps[] = {
    {"sample_logits", {.name = "shared_rows", .run = run_sample_logits, .scratch_bytes = sample_scratch}}};

}  // namespace

std::span<const OpKernel> sample_kernels() { return kOps; }

}  // namespace genesis::cuda
