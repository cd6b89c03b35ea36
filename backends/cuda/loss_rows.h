// Cross-entropy of rows that the registers of their threads can hold, against class indices: the next row is
// on its way while one is worked on, and rows are many to a block, so that few sums are left to add. What
// these kernels are told, and how losses are added, serves those for other rows too. Used by kernels/loss.cu.
#pragma once

#include "backends/cuda/exponential.h"
#include "backends/cuda/last_block.h"
#include "backends/cuda/rows.h"
#include "backends/cuda/wide_vector.h"
#include "backends/cuda/words.h"
#include "schema/ops/loss.h"

namespace genesis::cuda {

// What the rows of a block add to the loss, and to what a mean divides by.
struct alignas(16) LossTotals {
  double loss, weight;
};

inline constexpr int kLossThreads = 512;  // more would not have the registers

struct LossArguments {
  const void* logits = nullptr;
  const void* target = nullptr;  // class indices [rows], or probabilities [rows, classes]
  DType target_dtype = DType::i64;
  bool probabilities = false;
  WideVector weight;  // or null
  void* lse = nullptr;
  int64_t rows = 0, classes = 1, packs = 1, ignore_index = -100;
  int group = 32;         // threads of a row
  int64_t rows_each = 1;  // rows of a block
  double smoothing = 0;
  FaultReport fault;

  Reduction reduction = Reduction::kMean;
  void* loss = nullptr;           // forward: one, or one of each row
  LossTotals* partial = nullptr;  // of each block
  unsigned* counter = nullptr;    // of blocks that are done

  void* dlogits = nullptr;  // gradient; may be the logits
  const void* dy = nullptr;
  bool dy_per_row = false;
  const double* denominator = nullptr;  // of a mean, or null

#ifdef __CUDACC__
  __device__ int64_t target_of(int64_t row) const {
    return target_dtype == DType::i32 ? static_cast<const int32_t*>(target)[row]
                                      : static_cast<const int64_t*>(target)[row];
  }
  // The class, or -1 when the row does not count.
  __device__ int64_t class_of(int64_t of_target) const {
    return of_target != ignore_index && of_target >= 0 && of_target < classes ? of_target : -1;
  }
  __device__ void report(int64_t of_target) const {
    if (of_target != ignore_index && (of_target < 0 || of_target >= classes)) fault(of_target, classes);
  }
  template <class W>
  __device__ W weight_of(int64_t at) const {
    W w[1];
    weight.at(at, W(1), w);
    return w[0];
  }
  __device__ double smooth_share() const { return smoothing / static_cast<double>(classes); }

  // Of a row that counts, for the whole block: dy, over what a mean divides by.
  template <class W>
  __device__ double slope_of(int64_t row) const {
    const double slope = static_cast<double>(static_cast<const W*>(dy)[dy_per_row ? row : 0]);
    return denominator ? slope / *denominator : slope;
  }
#endif
};

#ifdef __CUDACC__

template <class W>
__device__ W finite_shift(W max) {
  return max == W(-INFINITY) ? W(0) : max;  // nothing but -inf so far: exponentials are 0
}

// The loss of a row whose maximum is `max`, in the thread that speaks for it.
template <class W>
__device__ void put_row(const LossArguments& a, int64_t row, bool counts, double loss, double lse,
                        double weight, LossTotals& totals) {
  if (a.lse) static_cast<W*>(a.lse)[row] = counts ? static_cast<W>(lse) : W(0);
  if (a.reduction == Reduction::kNone) static_cast<W*>(a.loss)[row] = static_cast<W>(counts ? loss : 0);
  if (!counts) return;
  totals.loss += loss;
  totals.weight += weight;
}

__device__ inline LossTotals add_over_block(const LossTotals& mine) {
  const int threads = static_cast<int>(blockDim.x);
  return {reduce_group(mine.loss, threads, Add{}), reduce_group(mine.weight, threads, Add{})};
}

// The block that comes last adds what all have, in order.
template <class W>
__device__ void finish_loss(const LossArguments& a, const LossTotals& mine) {
  if (a.reduction == Reduction::kNone) return;
  const LossTotals of_block = add_over_block(mine);
  if (threadIdx.x == 0) a.partial[blockIdx.x] = of_block;
  if (!is_last_block(a.counter, gridDim.x)) return;
  constexpr unsigned kFlight = 8;  // partial sums on their way at once
  LossTotals all{0, 0};
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kFlight * blockDim.x) {
    LossTotals some[kFlight] = {};
#pragma unroll
    for (unsigned u = 0; u < kFlight; ++u)
      if (i + u * blockDim.x < gridDim.x) some[u] = a.partial[i + u * blockDim.x];
#pragma unroll
    for (unsigned u = 0; u < kFlight; ++u) {
      all.loss += some[u].loss;
      all.weight += some[u].weight;
    }
  }
  all = add_over_block(all);
  if (threadIdx.x == 0)
    *static_cast<W*>(a.loss) =
        static_cast<W>(a.reduction == Reduction::kMean ? all.loss / all.weight : all.loss);
}

// The rows of a group of threads, one in work and the next on its way.
template <int K>
struct LossRows {
  const LossArguments& a;
  int64_t row, last;
  int first, at_once;
  Words ahead[K];
  int64_t target_ahead = -1;

  __device__ explicit LossRows(const LossArguments& arguments)
      : a(arguments),
        row(blockIdx.x * a.rows_each + threadIdx.x / a.group),
        last(min(a.rows, (blockIdx.x + int64_t{1}) * a.rows_each)),
        first(static_cast<int>(threadIdx.x) % a.group),
        at_once(static_cast<int>(blockDim.x) / a.group) {
    fetch();
  }
  __device__ int turns() const {
    return static_cast<int>((last - blockIdx.x * a.rows_each + at_once - 1) / at_once);
  }
  // The next row's logits and target.
  __device__ void fetch() {
    if (row >= last) return;
    const Words* from = static_cast<const Words*>(a.logits) + row * a.packs;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (first + k * a.group < a.packs) ahead[k] = from[first + k * a.group];
    target_ahead = a.target_of(row);
  }
  // body(k, pack's index) for the packs of this thread.
  template <class Body>
  __device__ void each(const Body& body) const {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (first + k * a.group < a.packs) body(k, first + k * a.group);
  }
};

template <class T, int N, int K>
__global__ void __launch_bounds__(kLossThreads, 2) held_loss_kernel(const LossArguments a) {
  begin_in_order();
  LossRows<K> rows(a);
  LossTotals totals{0, 0};
  const int turns = rows.turns();
  for (int turn = 0; turn < turns; ++turn) {
    Words x[K];
#pragma unroll
    for (int k = 0; k < K; ++k) x[k] = rows.ahead[k];
    const int64_t row = rows.row, target = rows.target_ahead;
    const bool there = row < rows.last, speaks = there && rows.first == 0;
    rows.row += rows.at_once;
    rows.fetch();
    const int64_t at = there ? a.class_of(target) : -1;
    if (speaks) a.report(target);
    float own = 0;  // asked for early: it comes while sums are made
    if (speaks && at >= 0) own = widen(static_cast<const T*>(a.logits)[row * a.classes + at]);
    float max = -INFINITY, sum = 0;
    rows.each([&](int k, int) {
#pragma unroll
      for (int j = 0; j < N; ++j) max = fmaxf(max, element_of<T>(x[k], j));
    });
    max = reduce_group(max, a.group, Max{});
    const float shift = finite_shift(max);
    rows.each([&](int k, int) {
#pragma unroll
      for (int j = 0; j < N; ++j) sum += exponential<T>(element_of<T>(x[k], j) - shift);
    });
    sum = reduce_group(sum, a.group, Add{});
    if (!speaks) continue;
    const double log_sum = static_cast<double>(logf(sum)), top = static_cast<double>(max);
    const double weight = at >= 0 ? static_cast<double>(a.weight_of<float>(at)) : 0;
    put_row<float>(a, row, at >= 0, weight * (log_sum + (top - static_cast<double>(own))), top + log_sum,
                   weight, totals);
  }
  finish_loss<float>(a, totals);
}

// dx = (softmax(x) - 1 at the target) times the row's dy.
template <class T, int N, int K>
__global__ void __launch_bounds__(kLossThreads, 2) held_gradient_kernel(const LossArguments a) {
  begin_in_order();
  LossRows<K> rows(a);
  const int turns = rows.turns();
  const double slope_of_all = a.dy_per_row ? 0 : a.slope_of<float>(0);
  for (int turn = 0; turn < turns && rows.row < rows.last; ++turn) {
    Words x[K];
#pragma unroll
    for (int k = 0; k < K; ++k) x[k] = rows.ahead[k];
    const int64_t row = rows.row, target = rows.target_ahead, at = a.class_of(target);
    rows.row += rows.at_once;
    rows.fetch();
    if (rows.first == 0) a.report(target);
    const double slope = a.dy_per_row ? a.slope_of<float>(row) : slope_of_all;
    const float scale = at < 0 ? 0 : static_cast<float>(slope * static_cast<double>(a.weight_of<float>(at)));
    const float lse = static_cast<const float*>(a.lse)[row];
    Words* dx = static_cast<Words*>(a.dlogits) + row * a.packs;
    rows.each([&](int k, int i) {
      float slopes[N] = {};
      if (at >= 0) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
          slopes[j] = scale * exponential<T>(element_of<T>(x[k], j) - lse);
          if (int64_t{i} * N + j == at) slopes[j] -= scale;
        }
      }
      dx[i] = words_of<T>(slopes);
    });
  }
}

#endif

}  // namespace genesis::cuda
