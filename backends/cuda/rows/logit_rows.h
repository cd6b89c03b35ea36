// Computes the loss of rows of logits, and their gradient in place, for rows that fit into one thread block: a row is
// read once and written once. A row of 152 K classes in 16 bits takes a multiprocessor's shared memory and part of
// its registers.
#pragma once

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/online_softmax.h"
#include "backends/cuda/rows/rows.h"

namespace genesis::cuda {

// Target class indices, as i32 or i64.
struct Targets {
  const void* data;
  bool narrow;
  int64_t classes, ignore_index;

#ifdef __CUDACC__
  __device__ int64_t operator[](int64_t row) const {
    return narrow ? static_cast<const int32_t*>(data)[row] : static_cast<const int64_t*>(data)[row];
  }
  __device__ bool counts(int64_t at) const { return at != ignore_index && at >= 0 && at < classes; }
#endif
};

struct RowsArguments {
  Targets targets;
  int64_t first, ld;  // first row of this block of rows, and leading dimension of the logits
  double smoothing;
  const double* denominator;  // divisor of a mean, or null
  double* row_loss;
  double boost;  // if not 0: multiplies the gradients, which are then not divided by the denominator
};

#ifdef __CUDACC__

// Sets loss and gradient of a row with an ignored or invalid target to 0.
template <class T>
__device__ __forceinline__ void clear_row(const RowsArguments& a, int64_t row, T* x, int threads) {
  if (threadIdx.x == 0) a.row_loss[row] = 0;
  for (int64_t i = threadIdx.x; i < a.targets.classes; i += threads) x[i] = narrow<T>(wide_t<T>(0));
}

// Factors of a logit's gradient, which is  scale * exp(x - lse) - low, minus `high` at the target.
template <class W>
struct LogitSlopes {
  W scale, low, high;

  __device__ __forceinline__ explicit LogitSlopes(const RowsArguments& a) {
    const double mean = a.denominator ? 1 / *a.denominator : 1, g = a.boost > 0 ? a.boost : mean;
    scale = static_cast<W>(g);
    low = static_cast<W>(g * (a.smoothing / static_cast<double>(a.targets.classes)));
    high = static_cast<W>(g * (1 - a.smoothing));
  }
};

// Returns the loss of a row. `spread` is the sum of max - x over the row, needed with label smoothing only.
template <class W>
__device__ __forceinline__ double row_loss(const RowsArguments& a, W max, W log_sum, W target, W spread) {
  const double classes = static_cast<double>(a.targets.classes);
  const double loss = (1 - a.smoothing) * (static_cast<double>(log_sum) +
                                           (static_cast<double>(max) - static_cast<double>(target)));
  if (a.smoothing == 0) return loss;
  return loss + a.smoothing / classes * (static_cast<double>(spread) + classes * log_sum);
}

constexpr int kMaxThreads = 1024;  // most threads of a block

// A row in its block: the first `cached` packs are in shared memory, the next K per thread in registers; elements
// that do not fill a pack stay in memory.
template <class T, int K>
struct BlockRow {
  static constexpr int N = static_cast<int>(16 / sizeof(T)), kBatches = 4;
  Words *packs, *cache;
  int cached, whole;
  int threads = static_cast<int>(blockDim.x), me = static_cast<int>(threadIdx.x);
  int batch = ((cached + threads - 1) / threads + kBatches - 1) / kBatches * threads;
  Words registers[K > 0 ? K : 1];

  // Starts all loads at once; softmax() uses them batch by batch as they arrive.
  __device__ __forceinline__ void ask() {
#pragma unroll
    for (int b = 0; b < kBatches; ++b) {
      for (int i = b * batch + me; i < min(cached, (b + 1) * batch); i += threads)
        copy_async(cache + i, packs + i);
      end_batch();
    }
    each_in_registers(*this, [&](Words& words, int i) { words = packs[i]; });
  }
  __device__ __forceinline__ OnlineSoftmax<ShiftedPower<T>> softmax() const {
    OnlineSoftmax<ShiftedPower<T>> seen;
    take_batch<0>(seen);
    take_batch<1>(seen);
    take_batch<2>(seen);
    take_batch<3>(seen);
    each_in_registers(*this, [&](const Words& words, int) { add(words, seen); });
    return seen;
  }
  // Calls body(words, index of the pack in the row) for each pack of this thread.
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) const {
#pragma unroll 2
    for (int i = me; i < cached; i += threads) body(cache[i], i);
    each_in_registers(*this, body);
  }

 private:
  template <class Row, class Body>
  __device__ __forceinline__ static void each_in_registers(Row& row, const Body& body) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (const int i = row.cached + row.me + k * row.threads; i < row.whole) body(row.registers[k], i);
  }
  __device__ __forceinline__ static void add(const Words& words, OnlineSoftmax<ShiftedPower<T>>& seen) {
    seen.template add<N>([&](int j) { return element_of<T>(words, j); });
  }
  template <int B>
  __device__ __forceinline__ void take_batch(OnlineSoftmax<ShiftedPower<T>>& seen) const {
    wait_for_batches<kBatches - 1 - B>();
    for (int i = B * batch + me; i < min(cached, (B + 1) * batch); i += threads) add(cache[i], seen);
  }
};

// One block per row.
template <class T, int K>
__global__ void __launch_bounds__(kMaxThreads)
    finish_block_rows(const RowsArguments a, T* logits, int cached) {
  constexpr int N = BlockRow<T, K>::N;
  extern __shared__ __align__(16) unsigned char shared_rows[];
  const int threads = static_cast<int>(blockDim.x), me = static_cast<int>(threadIdx.x);
  const int64_t row = a.first + blockIdx.x, classes = a.targets.classes, at = a.targets[row];
  T* x = logits + static_cast<int64_t>(blockIdx.x) * a.ld;
  if (!a.targets.counts(at)) return clear_row(a, row, x, threads);
  BlockRow<T, K> in_block{reinterpret_cast<Words*>(x), reinterpret_cast<Words*>(shared_rows), cached,
                          static_cast<int>(classes / N)};
  in_block.ask();
  const int64_t last =
      int64_t{in_block.whole} * N + me;  // index of this thread's element beyond the last whole pack, if any
  const bool has_last = last < classes;
  const float last_x = has_last ? widen(x[last]) : 0.0f, target = widen(x[at]);

  OnlineSoftmax<ShiftedPower<T>> seen = in_block.softmax();
  if (has_last) seen.template add<1>([&](int) { return last_x; });
  seen.merge_group(threads);  // all threads have read x[at] when it returns

  const float log_sum = logf(seen.sum);
  const LogitSlopes<float> slopes(a);
  const ShiftedPower<T> power(seen.max + log_sum);
  const int target_pack = static_cast<int>(at / N), target_place = static_cast<int>(at % N);
  float spread = 0;
  in_block.each([&](const Words& words, int i) {
    float slope[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float v = element_of<T>(words, j);
      slope[j] = slopes.scale * power(v) - slopes.low;
      if (a.smoothing != 0) spread += seen.max - v;
    }
    if (i == target_pack)
#pragma unroll
      for (int j = 0; j < N; ++j) slope[j] -= j == target_place ? slopes.high : 0.0f;
    in_block.packs[i] = words_of<T>(slope);
  });
  if (has_last) {
    x[last] = narrow<T>(slopes.scale * power(last_x) - slopes.low - (last == at ? slopes.high : 0.0f));
    spread += seen.max - last_x;
  }
  if (a.smoothing != 0) spread = reduce_group(spread, threads, Add{});
  if (me == 0) a.row_loss[row] = row_loss(a, seen.max, log_sum, target, spread);
}

// Processes the rows if a row fits into a block; otherwise returns false.
template <class T>
bool try_block_rows(const KernelContext& c, const RowsArguments& a, int64_t rows, T* logits) {
  constexpr int kInRegisters = 5;
  constexpr int64_t kReserved = 2 << 10, kPack = sizeof(Words);
  const int64_t shared_packs = (shared_bytes_limit() - kReserved) / kPack;
  const int64_t packs = a.targets.classes * static_cast<int64_t>(sizeof(T)) / kPack;
  if (packs > shared_packs + kInRegisters * kMaxThreads) return false;
  const auto cached = static_cast<int>(std::min(packs, shared_packs));
  const auto launch = [&](auto in_registers, int threads) {
    cudaFuncSetAttribute(finish_block_rows<T, in_registers()>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(cached * kPack));
    start(c, finish_block_rows<T, in_registers()>, rows, threads, static_cast<size_t>(cached * kPack), a,
          logits, cached);
  };
  if (packs > shared_packs)
    launch(std::integral_constant<int, kInRegisters>{}, kMaxThreads);
  else  // several blocks share a multiprocessor if the rows are short
    launch(std::integral_constant<int, 0>{}, packs * 2 > shared_packs ? kMaxThreads : kMaxThreads / 2);
  return true;
}

#endif

}  // namespace genesis::cuda
