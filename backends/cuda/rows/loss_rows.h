// Cross-entropy against class indices, for rows that fit into the registers of their threads. Each block has a small
// range of rows and ends without waiting for others; a second kernel adds up their partial sums. The arguments and
// the code that adds losses also serve the kernels for other rows.
#pragma once

#include "backends/cuda/device/online_softmax.h"
#include "backends/cuda/device/wide_vector.h"
#include "backends/cuda/device/words.h"
#include "backends/cuda/rows/rows.h"
#include "schema/ops/nn/loss.h"

namespace genesis::cuda {

// Sum of the losses of a block's rows, and sum of their weights, by which a mean is divided.
struct alignas(16) LossTotals {
  double loss, weight;
};

inline constexpr int kLossThreads = 512;  // more threads would not have enough registers
inline constexpr int kDenominatorParts = 32;

struct LossArguments {
  const void* logits = nullptr;
  const void* target = nullptr;  // class indices [rows], or probabilities [rows, classes]
  DType target_dtype = DType::i64;
  bool probabilities = false;
  WideVector weight;  // null if all weights are 1
  void* lse = nullptr;
  int64_t rows = 0, classes = 1, packs = 1, ignore_index = -100;
  OwnIndices own;         // the classes that this rank has, among all classes
  int group = 32;         // threads per row
  int64_t rows_each = 1;  // rows per block
  double smoothing = 0;
  bool spreads = false;  // classes other than the target contribute to the loss
  FaultReport fault;

  Reduction reduction = Reduction::kMean;
  void* loss = nullptr;           // forward: one number, or one per row
  LossTotals* partial = nullptr;  // one per block

  void* dlogits = nullptr;  // gradient; may be the logits
  const void* dy = nullptr;
  bool dy_per_row = false;
  const double* denominators = nullptr;  // the divisor of a mean as kDenominatorParts partial sums, or null

#ifdef __CUDACC__
  __device__ int64_t target_of(int64_t row) const {
    return target_dtype == DType::i32 ? static_cast<const int32_t*>(target)[row]
                                      : static_cast<const int64_t*>(target)[row];
  }
  // Returns the target as an index among all classes, or -1 if the row does not count.
  __device__ int64_t class_of(int64_t of_target) const {
    return of_target != ignore_index && own.exists(of_target) ? of_target : -1;
  }
  __device__ void report(int64_t of_target) const {
    if (of_target != ignore_index && !own.exists(of_target)) fault(of_target, own.all);
  }
  template <class W>
  __device__ W weight_of(int64_t at) const {
    W w[1];
    weight.at(at, W(1), w);
    return w[0];
  }
  __device__ double smooth_share() const { return smoothing / static_cast<double>(own.all); }

  // Returns the number of all classes divided by the number of classes here.
  __device__ double shards() const { return static_cast<double>(own.all) / static_cast<double>(classes); }

  // Returns the divisor of the gradient. Every thread of the warp calls it.
  __device__ double divisor() const {
    if (!denominators) return 1;
    return reduce_lanes(denominators[threadIdx.x % kDenominatorParts], kDenominatorParts, Add{});
  }
  // Returns dy of a row that counts, divided by the divisor.
  template <class W>
  __device__ W slope_of(int64_t row, double divisor) const {
    return static_cast<const W*>(dy)[dy_per_row ? row : 0] / static_cast<W>(divisor);
  }
#endif
};

#ifdef __CUDACC__

// Stores the loss and lse of a row and adds to the totals; one thread of the row's group calls it.
template <class W>
__device__ void put_row(const LossArguments& a, int64_t row, bool counts, double loss, double lse,
                        double weight, LossTotals& totals) {
  if (a.lse) static_cast<W*>(a.lse)[row] = counts ? static_cast<W>(lse) : W(0);
  if (a.reduction == Reduction::kNone) static_cast<W*>(a.loss)[row] = static_cast<W>(counts ? loss : 0);
  if (!counts) return;
  totals.loss += loss;
  totals.weight += weight;
}

// Adds the totals of the first threads of the block's groups, in order, and stores the sum.
__device__ inline void put_partial(const LossArguments& a, LossTotals mine) {
  if (a.reduction == Reduction::kNone) return;
  double sums[] = {mine.loss, mine.weight};
  sum_lanes_apart(sums, a.group);
  const auto add = [](const LossTotals& x, const LossTotals& y) {
    return LossTotals{x.loss + y.loss, x.weight + y.weight};
  };
  mine = reduce_warps<kLossThreads / kLanes>(LossTotals{sums[0], sums[1]}, blockDim.x / kLanes, add);
  if (threadIdx.x == 0) a.partial[blockIdx.x] = mine;
}

// For 16-bit types ShiftedPower's exp(x - max) has a constant factor, because max * log2(e) is rounded. The factor is
// known exactly, and its logarithm is subtracted here.
template <class T>
__device__ float log_of_sum(const ShiftedPower<T>& power, float sum) {
  if constexpr (std::is_same_v<T, float>) return logf(sum);
  constexpr float kLn2 = 0.693147180559945f;
  return logf(sum) - fmaf(power.shift, kLog2E, power.offset) * kLn2;
}

// Returns the greater element and ignores NaN; of two 16-bit elements in a register, both at once.
template <class T>
__device__ __forceinline__ uint32_t greater_of(uint32_t a, uint32_t b) {
  if constexpr (std::is_same_v<T, float>) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  } else {
    using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const Two most = __hmax2(*reinterpret_cast<const Two*>(&a), *reinterpret_cast<const Two*>(&b));
    return *reinterpret_cast<const uint32_t*>(&most);
  }
}
template <class T, int K>
__device__ float greatest(const Words (&x)[K]) {
  Words most = lowest_words<T>();
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) set_word(most, i, greater_of<T>(word_of(most, i), word_of(x[k], i)));
  }
  set_word(most, 0, greater_of<T>(greater_of<T>(most.x, most.y), greater_of<T>(most.z, most.w)));
  const float low = element_of<T>(most, 0);
  return sizeof(T) == 2 ? fmaxf(low, element_of<T>(most, 1)) : low;
}

// Loads a row of logits into the registers of its group, with -inf past its end.
template <class T, int K>
__device__ void load_row(const LossArguments& a, int64_t row, int first, Words (&x)[K]) {
  const Words* from = static_cast<const Words*>(a.logits) + row * a.packs + first;
#pragma unroll
  for (int k = 0; k < K; ++k) x[k] = first + k * a.group < a.packs ? from[k * a.group] : lowest_words<T>();
}

template <class T, int N, int K>
__global__ void __launch_bounds__(kLossThreads, sizeof(T) == 2 ? 3 : 2)
    register_loss_kernel(const LossArguments a) {
  begin_in_order();
  const int first = static_cast<int>(threadIdx.x) & (a.group - 1),
            at_once = static_cast<int>(blockDim.x) / a.group;
  const int64_t last = min(a.rows, (blockIdx.x + int64_t{1}) * a.rows_each);
  LossTotals totals{0, 0};
  for (int64_t base = blockIdx.x * a.rows_each; base < last; base += at_once) {
    const int64_t row = min(base + threadIdx.x / a.group, last - 1);
    const bool speaks = first == 0 && base + threadIdx.x / a.group < last;
    Words x[K];
    load_row<T>(a, row, first, x);
    int64_t at = -1, place = -1;
    float own = 0;  // loaded early: it arrives while the sums are computed
    if (speaks) {
      const int64_t target = a.target_of(row);
      at = a.class_of(target);
      place = a.own.place_of(at);
      a.report(target);
      if (place >= 0) own = widen(static_cast<const T*>(a.logits)[row * a.classes + place]);
    }
    const float greatest_of_row = reduce_group(greatest<T>(x), a.group, Max{});
    const ShiftedPower<T> power(finite_shift(greatest_of_row));
    float even = 0, odd = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int j = 0; j < N; j += 2) {
        even += power(element_of<T>(x[k], j));
        odd += power(element_of<T>(x[k], j + 1));
      }
    }
    const float sum = reduce_group(even + odd, a.group, Add{});
    if (!speaks) continue;
    const double log_sum = static_cast<double>(log_of_sum(power, sum)),
                 max = static_cast<double>(greatest_of_row);
    const double weight = place >= 0 ? static_cast<double>(a.weight_of<float>(place)) : 0;
    const double loss = place >= 0 ? weight * (log_sum + (max - static_cast<double>(own))) : 0;
    put_row<float>(a, row, at >= 0, loss, max + log_sum, weight, totals);
  }
  put_partial(a, totals);
}

// Returns the row of this thread's group in a gradient kernel, or a negative number. The last rows come first: when
// the loss has just read the logits, the L2 cache still has their end.
__device__ inline int64_t row_from_end(const LossArguments& a) {
  return a.rows - 1 - (static_cast<int64_t>(blockIdx.x) * (blockDim.x / a.group) + threadIdx.x / a.group);
}

// Computes dx = (softmax(x) - 1 at the target) times the row's dy.
template <class T, int N, int K>
__global__ void __launch_bounds__(kLossThreads, 2) register_gradient_kernel(const LossArguments a) {
  begin_in_order();
  const double denominator = a.divisor();
  const int first = static_cast<int>(threadIdx.x) & (a.group - 1);
  const int64_t row = row_from_end(a);
  if (row < 0) return;
  Words x[K];
  load_row<T>(a, row, first, x);
  const int64_t target = a.target_of(row), at = a.class_of(target);
  if (first == 0) a.report(target);
  const float scale = at < 0 ? 0 : a.slope_of<float>(row, denominator) * a.weight_of<float>(at);
  const ShiftedPower<T> probability(static_cast<const float*>(a.lse)[row]);
  const int place = static_cast<int>(a.own.place_of(at));
  const int target_pack = place < 0 ? -1 : place / N, target_place = place % N;
  Words* dx = static_cast<Words*>(a.dlogits) + row * a.packs + first;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = first + k * a.group;
    if (i >= a.packs) continue;
    if (at < 0) {
      dx[k * a.group] = Words{};
      continue;
    }
    float slopes[N];
#pragma unroll
    for (int j = 0; j < N; ++j) slopes[j] = scale * probability(element_of<T>(x[k], j));
    if (i == target_pack)
#pragma unroll
      for (int j = 0; j < N; ++j) slopes[j] -= j == target_place ? scale : 0;
    dx[k * a.group] = words_of<T>(slopes);
  }
}

#endif

}  // namespace genesis::cuda
