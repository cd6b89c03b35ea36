// The arguments of one cached_attention on the device, shared by all its kernel implementations.
#pragma once

#include "backends/cuda/device/number.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/ops/nn/cached_attention.h"

namespace genesis::cuda {

constexpr int64_t kMaxCachedPositions = int64_t{1} << 24;

// The split of the work; depends on the shape alone.
struct CachedPlan {
  int group = 1, splits = 1;  // query heads per key head; ranges that the keys are split into
  int64_t columns = 1;        // merged results: one per query head, or key head, of each text
  // Partial results: weighted values [column][split][size], then [column][split]{maximum, sum}.
  int64_t partial_rows = 1;
};

struct CachedCall {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *k_cache = nullptr, *v_cache = nullptr, *y = nullptr;
  const int64_t* start = nullptr;       // one, or one per row of the batch
  const double* frequencies = nullptr;  // [pairs] or [batch, pairs] if they are an input; null: use of_theta
  int64_t start_step = 0, frequencies_step = 0;  // distance from one row of the batch to the next
  float* partials = nullptr;
  unsigned* tickets = nullptr;  // [column], zero between runs
  FaultReport fault;
  CachedPlan plan;
  int key_heads = 1;
  int64_t positions = 0;
  int window = 0;  // 0: all positions up to start
  float scale = 1;
  bool independent = false;  // start, frequencies and caches are independent
  bool packed = true;        // the caches are aligned to 16 bytes
  bool rotate_half = true;
  int pairs = 0;  // number of pairs that are rotated
  static constexpr int kMaxPairs = 128;
  double of_theta[kMaxPairs] = {};

  __device__ __forceinline__ double frequency(int batch, int pair) const {
    return frequencies ? frequencies[batch * frequencies_step + pair] : of_theta[pair];
  }
};

// The two elements of a head x that rope rotates together, rounded to T: pair `i`, of which the first c.pairs are
// rotated.
template <class T>
struct RotatedPair {
  int low, high;  // their indices in the head
  float a, b;

  __device__ __forceinline__ RotatedPair(const CachedCall& c, const T* x, int i, const float* cosines,
                                         const float* sines) {
    const bool rotates = i < c.pairs;
    low = rotates && c.rotate_half ? i : 2 * i;
    high = rotates && c.rotate_half ? i + c.pairs : 2 * i + 1;
    const float p = widen(x[low]), q = widen(x[high]);
    const float cosine = rotates ? cosines[i] : 1, sine = rotates ? sines[i] : 0;
    a = rotates ? widen(narrow<T>(p * cosine - q * sine)) : p;
    b = rotates ? widen(narrow<T>(q * cosine + p * sine)) : q;
  }
};

// Returns the fields that are the same in all runs, except `plan`.
CachedCall cached_call(const KernelQuery& query);
// Adds a run's data. Copies the caches first if they are not updated in place.
CachedCall with_data(CachedCall call, const KernelContext& c);

// Declines dtypes and sizes that no kernel here takes; does not check head sizes.
std::optional<std::string> decline_cached(const KernelQuery& query);

KernelImpl grouped_attention_implementation();  // grouped/grouped_attention.cu
KernelImpl one_start_implementation();          // one_start/one_start.cu

}  // namespace genesis::cuda
