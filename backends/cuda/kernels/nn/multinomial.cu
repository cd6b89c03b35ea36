// multinomial: draws indices of a row by their weights. With replacement: running sums of the weights as integers
// (backends/common/sampling.h), then a search per sample. Without: each element gets a random waiting time, and the
// first times in sorted order are chosen. The choice is the same as the CPU's.
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/draw.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/radix_sort.h"
#include "schema/core/checked_size.h"
#include "schema/ops/tensor/random.h"

namespace genesis::cuda {
namespace {

constexpr int kRowThreads = 1024;

// Reports a weight that is negative, infinite or NaN, and counts it as 0.
__device__ float usable(float weight, const FaultReport& fault) {
  if (weight >= 0 && weight <= 3.402823466e38f) return weight;
  fault(weight < 0 ? -1 : INT64_MAX, INT64_MAX);
  return 0;
}

struct Drawing {
  int64_t n, samples;
  int bits;
  const int64_t* rng;
  uint32_t stream;
  FaultReport fault;
};

// One block per row: running sums of the weights, then a search per sample.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    draw_with_replacement(Drawing d, const T* weights, Sum* all_sums, int64_t* chosen) {
  __shared__ uint32_t greatest_bits;
  const int64_t row = blockIdx.x;
  weights += row * d.n;
  Sum* sums = all_sums + row * d.n;
  const auto weight = [&](int64_t i) { return usable(static_cast<float>(widen(weights[i])), d.fault); };
  if (threadIdx.x == 0) greatest_bits = 0;
  __syncthreads();
  float greatest = 0;
  for (int64_t i = threadIdx.x; i < d.n; i += kRowThreads) greatest = fmaxf(greatest, weight(i));
  atomicMax(&greatest_bits, bits_of(greatest));  // bits of nonnegative floats are ordered as the floats
  __syncthreads();
  const double factor = multiple_factor(float_of(greatest_bits), d.bits);

  constexpr int kEach = 4;
  Sum before = 0;
  for (int64_t first = 0; first < d.n; first += kRowThreads * kEach) {
    Sum mine[kEach], sum = 0;
    for (int k = 0; k < kEach; ++k) {
      const int64_t i = first + threadIdx.x * kEach + k;
      mine[k] = sum += i < d.n ? whole_multiple(weight(i), factor) : 0;
    }
    const BlockScan<Sum> scan = block_scan(sum);
    for (int k = 0; k < kEach; ++k)
      if (const int64_t i = first + threadIdx.x * kEach + k; i < d.n)
        sums[i] = before + scan.before + mine[k];
    before += scan.total;
  }
  if (before == 0 && threadIdx.x == 0) d.fault(0, 0);
  __syncthreads();
  for (int64_t k = threadIdx.x; k < d.samples; k += kRowThreads) {
    const int64_t at = row * d.samples + k;
    const Sum target = share_of(before, word_of_draw(d.rng, d.stream, at));
    int64_t low = 0, high = d.n;  // finds the first sum above the target
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (sums[middle] > target)
        high = middle;
      else
        low = middle + 1;
    }
    chosen[at] = min(low, d.n - 1);
  }
}

// Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: element i waits an exponentially
// distributed time of rate w_i, and the first to arrive are chosen. The bits of nonnegative times are ordered as the
// times.
constexpr int kTimeBits = 63;

template <class T, class Key>
__global__ void __launch_bounds__(kRowThreads) draw_times(Drawing d, const T* weights, Key* times) {
  const int64_t row = blockIdx.x;
  uint32_t possible = 0;
  for (int64_t i = threadIdx.x; i < d.n; i += kRowThreads) {
    const int64_t at = row * d.n + i;
    const float u = static_cast<float>((word_of_draw(d.rng, d.stream, at) >> 8) + 1) * 0x1p-24f;
    const float weight = usable(static_cast<float>(widen(weights[at])), d.fault);
    possible += weight > 0;
    union {
      double time;
      uint64_t bits;
    } both = {weight > 0 ? static_cast<double>(-log_of_uniform(u)) / static_cast<double>(weight)
                         : static_cast<double>(INFINITY)};
    times[at] = row_key<Key>(row, both.time > 0 ? both.bits : 0, kTimeBits);
  }
  const uint32_t total = block_scan(possible).total;
  if (threadIdx.x == 0 && total < d.samples) d.fault(d.samples, int64_t{total} + 1);
}

struct TakeFirst {
  int64_t n;
  Divisor samples;
  bool small;
  const uint32_t* places;
  int64_t* chosen;

  __device__ void operator()(int64_t i) const {
    const FlatIndex at = divide(static_cast<uint64_t>(i), samples, small);
    chosen[i] = places[static_cast<int64_t>(at.quotient) * n + static_cast<int64_t>(at.remainder)];
  }
};

SortShape times_shape(int64_t rows, int64_t n) { return {.rows = rows, .n = n, .key_bits = kTimeBits}; }

void run_multinomial(const KernelContext& c) {
  const auto& op = c.attributes<ops::Multinomial>();
  const int64_t n = c.input(1).dim(-1), samples = c.output().dim(-1);
  const int64_t rows = n == 0 ? 0 : c.input(1).numel() / n, count = rows * samples;
  const Drawing d{n,
                  samples,
                  weight_bits(n),
                  c.input(0).as<const int64_t>(),
                  static_cast<uint32_t>(op.stream),
                  launch_of(c).fault};
  int64_t* chosen = c.output().as<int64_t>();
  dispatch_float(c.input(1).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* weights = c.input(1).as<const T>();
    if (op.replacement)
      return start(c, draw_with_replacement<T>, rows, kRowThreads, 0, d, weights,
                   reinterpret_cast<Sum*>(c.scratch), chosen);
    const SortShape shape = times_shape(rows, n);
    const SortBuffers buffers = sort_buffers(shape, c.scratch);
    with_key<8>(shape, [&](auto key) {
      using Key = typename decltype(key)::type;
      start(c, draw_times<T, Key>, rows, kRowThreads, 0, d, weights, static_cast<Key*>(buffers.keys[0]));
    });
    const int at = radix_sort(c, shape, buffers);
    for_each(c, count, TakeFirst{n, make_divisor(samples), is_small(count), buffers.places[at], chosen});
  });
}

int64_t multinomial_scratch(const KernelQuery& query) {
  const Shape& weights = query.inputs[1].shape;
  const int64_t n = weights[weights.rank() - 1].value(), numel = query.inputs[1].numel();
  if (from_attributes<ops::Multinomial>(query.attributes).replacement || n == 0)
    return (CheckedSize(numel) * 8).value();
  return sort_scratch_bytes(times_shape(numel / n, n));
}

constexpr OpKernel kOps[] = {
    {"multinomial", {.name = "rows", .run = run_multinomial, .scratch_bytes = multinomial_scratch}}};

}  // namespace

std::span<const OpKernel> multinomial_kernels() { return kOps; }

}  // namespace genesis::cuda
