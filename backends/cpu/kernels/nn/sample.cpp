// Draws an index per row: multinomial and sample_logits. One thread handles a row, and its random numbers depend only on the
// position of the row (or on the row's own seed and step).
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/common/sampling.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"
#include "schema/core/checked_size.h"
#include "schema/core/philox.h"
#include "schema/ops/tensor/random.h"

namespace genesis::cpu {
namespace {

struct Draw {
  uint64_t seed;
  uint32_t stream, step;

  uint32_t word(int64_t i) const {
    return philox(seed, stream, step, static_cast<uint64_t>(i / 4)).word[static_cast<size_t>(i % 4)];
  }
};

Draw draw_of(const TensorView& rng, int64_t stream) {
  const int64_t* state = rng.as<int64_t>();
  return {static_cast<uint64_t>(state[0]), static_cast<uint32_t>(stream), static_cast<uint32_t>(state[1])};
}

// Calls f(i, value as f32) for the n elements of one row.
template <class F>
void read_row(const TensorView& x, int64_t row, int64_t n, F&& f) {
  dispatch(x.dtype, [&]<class T>(TypeTag<T>) {
    const T* from = x.as<T>() + row * n;
    for (int64_t i = 0; i < n; ++i) f(i, static_cast<float>(from[i]));
  });
}

// --- sample_logits

// The tokens of one row that can still be drawn, in the order of their indices.
struct Candidates {
  float* logits;
  float* weights;   // exp((logit - greatest) / temperature)
  uint32_t* keys;   // unsigned numbers in the order of the logits
  int32_t* places;  // indices in the row
  int32_t* list;    // scratch memory of find_threshold()
  int64_t n;
  int bits;  // bits of a weight as an integer (whole_weight)

  uint64_t weight(int64_t i) const { return whole_weight(weights[i], bits); }
};
constexpr int64_t kCandidateBytes = 20;  // per token

// The tokens to keep: all with a key greater than `key`, and the first `ties` of those with exactly that key.
struct Threshold {
  uint32_t key;
  int64_t ties;
};

// The state of one level of find_threshold(): the sums of weights by some bits of the key.
struct Bins {
  uint64_t mass[2048];
};

// Adds up bins from the top until `above` and the next bin together reach `wanted`. Returns that bin, which `above` does not
// include.
int find_bin(const Bins& bins, int size, uint64_t wanted, uint64_t& above) {
  for (int bin = size - 1; bin > 0; --bin) {
    if (above + bins.mass[bin] >= wanted) return bin;
    above += bins.mass[bin];
  }
  return 0;
}

// Returns the smallest set of tokens with the greatest keys whose weights sum to at least `wanted` (not 0). This is a radix
// search from the top: each level sums the weights by 11 (in the last level 10) bits of the key, and only the tokens of the bin
// in which the sum is reached go on to the next level.
template <class Weight>
Threshold find_threshold(const Candidates& c, uint64_t wanted, const Weight& weight) {
  constexpr int kShift[] = {21, 10, 0}, kSize[] = {2048, 2048, 1024};
  Bins bins;
  uint64_t above = 0;
  int64_t n = c.n;
  uint32_t key = 0;
  int bin = 0;
  for (int level = 0; level < 3; ++level) {
    const auto bin_of = [&](int32_t i) {
      return static_cast<int>(c.keys[i] >> kShift[level]) & (kSize[level] - 1);
    };
    const auto token = [&](int64_t i) { return level == 0 ? static_cast<int32_t>(i) : c.list[i]; };
    std::fill_n(bins.mass, kSize[level], uint64_t{0});
    for (int64_t i = 0; i < n; ++i) {
      const int32_t at = token(i);
      bins.mass[bin_of(at)] += weight(at);
    }
    bin = find_bin(bins, kSize[level], wanted, above);
    key |= static_cast<uint32_t>(bin) << kShift[level];
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t at = token(i);
      c.list[kept] = at;
      kept += bin_of(at) == bin;
    }
    n = kept;
  }
  const uint64_t each = bins.mass[bin] / static_cast<uint64_t>(n);  // equal keys have equal weights
  return {key, static_cast<int64_t>((wanted - above + each - 1) / each)};
}

void keep(Candidates& c, const Threshold& threshold) {
  int64_t kept = 0, ties = 0;
  for (int64_t i = 0; i < c.n; ++i) {
    const bool tie = c.keys[i] == threshold.key;
    c.logits[kept] = c.logits[i], c.weights[kept] = c.weights[i];
    c.keys[kept] = c.keys[i], c.places[kept] = c.places[i];
    kept += c.keys[i] > threshold.key || (tie && ties < threshold.ties);
    ties += tie;
  }
  c.n = kept;
}

int64_t greatest_of(const float* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, x[0]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  float best = *std::max_element(lanes, lanes + kLanes);
  for (; i < n; ++i) best = std::max(best, x[i]);
  return std::find(x, x + n, best) - x;
}

uint64_t total_of(const Candidates& c) {
  uint64_t total = 0;
  for (int64_t i = 0; i < c.n; ++i) total += c.weight(i);
  return total;
}

// Returns the first token at which the running sum of weights exceeds `target`.
int64_t token_at(const Candidates& c, uint64_t target) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < c.n; ++i) {
    sum += c.weight(i);
    if (sum > target) return i;
  }
  return c.n - 1;
}

struct SampleSettings {
  double temperature;
  int64_t top_k;
  double top_p, min_p;
};

// Keeps the tokens whose weight is at least `min_p`; the greatest weight is 1.
void keep_likely(Candidates& c, float min_p) {
  int64_t kept = 0;
  for (int64_t i = 0; i < c.n; ++i) {
    c.weights[kept] = c.weights[i], c.places[kept] = c.places[i];
    kept += c.weights[i] >= min_p;
  }
  c.n = kept;
}

int64_t sample_row(Candidates& c, const SampleSettings& settings, uint32_t word) {
  const int64_t greatest = greatest_of(c.logits, c.n);
  const float top = c.logits[greatest];
  if (!(settings.temperature > 0) || !std::isfinite(top)) return greatest;
  const bool cut_k = settings.top_k > 0 && settings.top_k < c.n, cut_p = settings.top_p < 1;
  for (int64_t i = 0; i < c.n; ++i) c.places[i] = static_cast<int32_t>(i);
  if (cut_k || cut_p)
    for (int64_t i = 0; i < c.n; ++i) c.keys[i] = sampling_key(c.logits[i]);
  if (cut_k)
    keep(c, find_threshold(c, static_cast<uint64_t>(settings.top_k), [](int32_t) { return uint64_t{1}; }));
  const auto scale = static_cast<float>(1 / settings.temperature);
  for (int64_t i = 0; i < c.n; ++i) c.weights[i] = sampling_exp((c.logits[i] - top) * scale);
  if (cut_p)
    keep(c,
         find_threshold(c, nucleus_of(total_of(c), settings.top_p), [&](int32_t i) { return c.weight(i); }));
  if (settings.min_p > 0) keep_likely(c, std::min(static_cast<float>(settings.min_p), 1.0f));
  return c.places[token_at(c, share_of(total_of(c), word))];
}

// Returns the setting of a row. A tensor of settings has one element for all rows, or one per row.
template <class T>
T setting_of(const TensorView& setting, int64_t row) {
  return setting.as<T>()[setting.numel() == 1 ? 0 : row];
}

SampleSettings settings_of(const KernelContext& c, int64_t row) {
  const auto& op = c.attributes<ops::SampleLogits>();
  if (c.num_inputs() == 2) return {op.temperature, op.top_k, op.top_p, op.min_p};
  return {setting_of<float>(c.input(2), row), setting_of<int64_t>(c.input(3), row),
          setting_of<float>(c.input(4), row), c.num_inputs() == 6 ? setting_of<float>(c.input(5), row) : 0};
}

// Returns the random word of a row. If rows have their own seeds and steps, a row draws the same word as if it were the only row.
uint32_t word_of_row(const TensorView& rng, int64_t stream, int64_t row) {
  if (rng.rank == 1) return draw_of(rng, stream).word(row);
  const int64_t *seeds = rng.as<int64_t>(), *steps = seeds + rng.numel() / 2;
  return Draw{static_cast<uint64_t>(seeds[row]), static_cast<uint32_t>(stream),
              static_cast<uint32_t>(steps[row])}
      .word(0);
}

void run_sample_logits(const KernelContext& c) {
  const TensorView& logits = c.input(1);
  const int64_t n = logits.dim(-1), rows = c.output().numel();
  const int64_t stream = c.attributes<ops::SampleLogits>().stream;
  parallel_rows(rows, n * kCandidateBytes, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      auto* words = reinterpret_cast<uint32_t*>(c.scratch + r * n * kCandidateBytes);
      Candidates row{reinterpret_cast<float*>(words),
                     reinterpret_cast<float*>(words + n),
                     words + 2 * n,
                     reinterpret_cast<int32_t*>(words + 3 * n),
                     reinterpret_cast<int32_t*>(words + 4 * n),
                     n,
                     weight_bits(n)};
      int64_t not_numbers = 0;
      read_row(logits, r, n, [&](int64_t i, float x) { row.logits[i] = x, not_numbers += x != x; });
      if (not_numbers > 0) {
        c.fault->report(kNanLogit);
        continue;
      }
      c.output().as<int64_t>()[r] = sample_row(row, settings_of(c, r), word_of_row(c.input(0), stream, r));
    }
  });
}

int64_t sample_scratch(const KernelQuery& query) {
  return (CheckedSize(query.inputs[1].numel()) * kCandidateBytes).value();
}

// --- multinomial

struct Weighted {
  double time;  // arrival time of the element, drawn from an exponential distribution
  int64_t place;
};

bool earlier(const Weighted& a, const Weighted& b) {
  return a.time != b.time ? a.time < b.time : a.place < b.place;
}

// Returns the weight, or reports one that is negative, infinite or NaN and returns 0.
float usable(float weight, Fault* fault) {
  if (weight >= 0 && weight <= std::numeric_limits<float>::max()) return weight;
  fault->report(static_cast<int64_t>(weight < 0 ? -1 : std::numeric_limits<int64_t>::max()),
                std::numeric_limits<int64_t>::max());
  return 0;
}

void draw_with_replacement(const KernelContext& c, const Draw& draw, int64_t row, int64_t n,
                           Weighted* scratch) {
  const int64_t samples = c.output().dim(-1);
  auto* sums = reinterpret_cast<uint64_t*>(scratch);
  float greatest = 0;
  read_row(c.input(1), row, n, [&](int64_t, float w) { greatest = std::max(greatest, usable(w, c.fault)); });
  const double factor = multiple_factor(greatest, weight_bits(n));
  uint64_t sum = 0;
  read_row(c.input(1), row, n,
           [&](int64_t i, float w) { sums[i] = sum += whole_multiple(usable(w, c.fault), factor); });
  if (sum == 0) c.fault->report(0, 0);
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t at = row * samples + s;
    const auto* found = std::upper_bound(sums, sums + n, share_of(sum, draw.word(at)));
    c.output().as<int64_t>()[at] = std::min<int64_t>(found - sums, n - 1);
  }
}

// Algorithm of Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: element i arrives after a time that is
// exponentially distributed with rate w_i, and the first elements to arrive are the sample.
void draw_without_replacement(const KernelContext& c, const Draw& draw, int64_t row, int64_t n,
                              Weighted* times) {
  const int64_t samples = c.output().dim(-1);
  int64_t possible = 0;
  read_row(c.input(1), row, n, [&](int64_t i, float w) {
    const float u = static_cast<float>((draw.word(row * n + i) >> 8) + 1) * 0x1p-24f;
    const float weight = usable(w, c.fault);
    possible += weight > 0;
    const double never = std::numeric_limits<double>::infinity();
    times[i] = {weight > 0 ? static_cast<double>(-log_of_uniform(u)) / static_cast<double>(weight) : never,
                i};
  });
  if (possible < samples) c.fault->report(samples, possible + 1);
  std::partial_sort(times, times + samples, times + n, earlier);
  for (int64_t s = 0; s < samples; ++s) c.output().as<int64_t>()[row * samples + s] = times[s].place;
}

void run_multinomial(const KernelContext& c) {
  const auto& op = c.attributes<ops::Multinomial>();
  const int64_t n = c.input(1).dim(-1), rows = c.input(1).numel() / std::max<int64_t>(n, 1);
  const Draw draw = draw_of(c.input(0), op.stream);
  auto* scratch = reinterpret_cast<Weighted*>(c.scratch);
  parallel_rows(rows, n * 16, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      (op.replacement ? draw_with_replacement : draw_without_replacement)(c, draw, row, n, scratch + row * n);
  });
}

int64_t multinomial_scratch(const KernelQuery& query) {
  return (CheckedSize(query.inputs[1].numel()) * sizeof(Weighted)).value();
}

constexpr OpKernel kKernels[] = {
    {"sample_logits", {.name = "radix", .run = run_sample_logits, .scratch_bytes = sample_scratch}},
    {"multinomial", {.name = "rows", .run = run_multinomial, .scratch_bytes = multinomial_scratch}}};

}  // namespace

std::span<const OpKernel> sample_kernels() { return kKernels; }

}  // namespace genesis::cpu
