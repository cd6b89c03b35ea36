// The loss of rows of logits, and the gradient in their place, where a block can hold a row: it is read once
// and written once. A vocabulary of 152 K in 16 bits takes a multiprocessor's shared memory and part of its
// registers. Used by kernels/linear_cross_entropy.cu.
#pragma once

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/exponential.h"
#include "backends/cuda/rows/rows.h"

namespace genesis::cuda {

// Class indices, as i32 or i64.
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
  int64_t first, ld;  // of this block's rows
  double smoothing;
  const double* denominator;  // of a mean, or null
  double* row_loss;
  double boost;  // 0, or what gradients are multiplied by in place of dividing them by the denominator
};

#ifdef __CUDACC__

// exp(x - shift) of logits: for the 16-bit types as a power of two with one multiplication.
template <class T>
struct ShiftedPower {
  float shift, offset;
  __device__ explicit ShiftedPower(float s) : shift(s), offset(-s * kLog2E) {}
  __device__ float operator()(float x) const {
    if constexpr (std::is_same_v<T, float>) return expf(x - shift);
    return approximate_power(fmaf(x, kLog2E, offset));
  }
};

// What a thread has seen of a row: the greatest logit, and the sum of exp(x - greatest).
template <class T>
struct OnlineSum {
  static constexpr int N = static_cast<int>(16 / sizeof(T));
  float max = -INFINITY, sum = 0;

  __device__ void rise(float to) {
    if (to <= max) return;
    sum *= ShiftedPower<T>(to)(max);
    max = to;
  }
  // Nothing but -inf so far: exponentials are 0.
  __device__ float shift() const { return max == -INFINITY ? 0.0f : max; }
  __device__ void add(float x) {
    rise(x);
    sum += ShiftedPower<T>(shift())(x);
  }
  __device__ void add(const Words& words) {
    float most = max;
#pragma unroll
    for (int j = 0; j < N; ++j) most = fmaxf(most, element_of<T>(words, j));
    rise(most);
    const ShiftedPower<T> power(shift());
#pragma unroll
    for (int j = 0; j < N; ++j) sum += power(element_of<T>(words, j));
  }
  // Of all threads of the block, in each.
  __device__ void join_block() {
    const int threads = static_cast<int>(blockDim.x);
    const float most = reduce_group(max, threads, Max{});
    rise(most);
    sum = reduce_group(sum, threads, Add{});
  }
};

constexpr int kHolders = 1024;  // threads of a block, at most

// A block per row: `cached` packs of it in shared memory, then kHeld packs in each thread's registers.
template <class T, int kHeld>
__global__ void __launch_bounds__(kHolders) finish_held_rows(const RowsArguments a, T* logits, int cached) {
  constexpr int N = OnlineSum<T>::N, kBatches = 4;
  extern __shared__ __align__(16) unsigned char shared[];
  Words* cache = reinterpret_cast<Words*>(shared);
  const int threads = static_cast<int>(blockDim.x), me = static_cast<int>(threadIdx.x);
  const int64_t row = a.first + blockIdx.x, classes = a.targets.classes, at = a.targets[row];
  T* x = logits + static_cast<int64_t>(blockIdx.x) * a.ld;
  Words* packs = reinterpret_cast<Words*>(x);
  const int whole = static_cast<int>(classes / N);
  if (!a.targets.counts(at)) {
    if (me == 0) a.row_loss[row] = 0;
    for (int64_t i = me; i < classes; i += threads) x[i] = narrow<T>(0.0f);
    return;
  }
  // Everything is asked for at once, and used batch by batch as it comes.
  const int batch = ((cached + threads - 1) / threads + kBatches - 1) / kBatches * threads;
#pragma unroll
  for (int b = 0; b < kBatches; ++b) {
    for (int i = b * batch + me; i < min(cached, (b + 1) * batch); i += threads)
      copy_async(cache + i, packs + i);
    end_batch();
  }
  Words held[kHeld > 0 ? kHeld : 1];
  const auto each_held = [&](const auto& body) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      if (const int i = cached + me + k * threads; i < whole) body(held[k], i);
  };
  each_held([&](Words& words, int i) { words = packs[i]; });
  const int64_t last = int64_t{whole} * N + me;  // of the elements beyond the last pack, where there is one
  const bool has_last = last < classes;
  const float last_x = has_last ? widen(x[last]) : 0.0f, target = widen(x[at]);

  OnlineSum<T> seen;
  const auto take_batch = [&](int b) {
    for (int i = b * batch + me; i < min(cached, (b + 1) * batch); i += threads) seen.add(cache[i]);
  };
  wait_for_batches<3>();
  take_batch(0);
  wait_for_batches<2>();
  take_batch(1);
  wait_for_batches<1>();
  take_batch(2);
  wait_for_batches<0>();
  take_batch(3);
  each_held([&](const Words& words, int) { seen.add(words); });
  if (has_last) seen.add(last_x);
  seen.join_block();  // all have read x[at] when it returns

  const float log_sum = logf(seen.sum);
  const double mean = a.denominator ? 1 / *a.denominator : 1, g = a.boost > 0 ? a.boost : mean;
  const double share = a.smoothing / static_cast<double>(classes);
  const float scale = static_cast<float>(g), low = static_cast<float>(g * share),
              high = static_cast<float>(g * (1 - a.smoothing));
  const ShiftedPower<T> power(seen.max + log_sum);
  const int target_pack = static_cast<int>(at / N), target_place = static_cast<int>(at % N);
  float spread = 0;
  const auto put = [&](const Words& words, int i) {
    float slope[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float v = element_of<T>(words, j);
      slope[j] = scale * power(v) - low;
      if (a.smoothing != 0) spread += seen.max - v;
    }
    if (i == target_pack)
#pragma unroll
      for (int j = 0; j < N; ++j) slope[j] -= j == target_place ? high : 0.0f;
    packs[i] = words_of<T>(slope);
  };
#pragma unroll 2
  for (int i = me; i < cached; i += threads) put(cache[i], i);
  each_held(put);
  if (has_last) {
    x[last] = narrow<T>(scale * power(last_x) - low - (last == at ? high : 0.0f));
    spread += seen.max - last_x;
  }
  if (a.smoothing != 0) spread = reduce_group(spread, threads, Add{});
  if (me != 0) return;
  double loss = (1 - a.smoothing) * (static_cast<double>(log_sum) +
                                     (static_cast<double>(seen.max) - static_cast<double>(target)));
  if (a.smoothing != 0)
    loss += share * (static_cast<double>(spread) + static_cast<double>(classes) * log_sum);
  a.row_loss[row] = loss;
}

// Whether rows fit; then they are done.
template <class T>
bool try_held_rows(const KernelContext& c, const RowsArguments& a, int64_t rows, T* logits) {
  constexpr int kHeld = 5;
  constexpr int64_t kReserved = 2 << 10, kPack = sizeof(Words);
  const int64_t room = (shared_bytes_limit() - kReserved) / kPack;
  const int64_t packs = a.targets.classes * static_cast<int64_t>(sizeof(T)) / kPack;
  if (packs > room + kHeld * kHolders) return false;
  const auto cached = static_cast<int>(std::min(packs, room));
  const auto launch = [&](auto held, int threads) {
    cudaFuncSetAttribute(finish_held_rows<T, held()>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(cached * kPack));
    start(c, finish_held_rows<T, held()>, rows, threads, static_cast<size_t>(cached * kPack), a, logits,
          cached);
  };
  if (packs > room)
    launch(std::integral_constant<int, kHeld>{}, kHolders);
  else  // several blocks share a multiprocessor where rows are short
    launch(std::integral_constant<int, 0>{}, packs * 2 > room ? kHolders : kHolders / 2);
  return true;
}

#endif

}  // namespace genesis::cuda
