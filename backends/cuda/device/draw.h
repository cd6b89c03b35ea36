// Shared code of the ops that sample an index per row: the random word of a draw, and searches in which all threads
// of a block take part and get the result.
#pragma once

#include "backends/common/sampling.h"
#include "backends/cuda/device/warp_scan.h"

namespace genesis::cuda {

using Sum = unsigned long long;  // the type that atomicAdd takes

__device__ inline uint32_t word_of_draw(const int64_t* rng, uint32_t stream, int64_t i) {
  return philox(static_cast<uint64_t>(rng[0]), stream, static_cast<uint32_t>(rng[1]),
                static_cast<uint64_t>(i / 4))
      .word[i % 4];
}

struct Found {
  int64_t at;
  Sum before, value;
};

// Finds the first i in [0, count) at which the running sum of value_of(i) exceeds `target`, which is below the total
// sum.
template <class ValueOf>
__device__ Found find_running(int64_t count, Sum target, const ValueOf& value_of) {
  __shared__ Found found;
  Sum before = 0;
  for (int64_t first = 0; first < count && before <= target; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const Sum value = i < count ? value_of(i) : 0;
    const BlockScan<Sum> scan = block_scan(value);
    const Sum mine = before + scan.before;
    if (mine <= target && target < mine + value) found = {i, mine, value};
    before += scan.total;
  }
  __syncthreads();
  return found;
}

inline constexpr int kBins = 2048;

// A list entry holds a token's key in its upper half and the token's index in its lower half.
__device__ inline uint32_t key_in(uint64_t entry) { return static_cast<uint32_t>(entry >> 32); }
__device__ inline uint32_t index_in(uint64_t entry) { return static_cast<uint32_t>(entry); }

struct Selected {
  uint32_t field;  // smallest field in the selected set
  Sum above, at;   // weight of all greater fields, and of this field
};

// Selects the smallest set of entries with the greatest field_of(entry) < 2^bits whose weights sum to `wanted` or
// more; `wanted` is at least 1 and at most the sum of all weights. The sums are integers, so the order of the atomics
// does not matter. `mass` is shared memory for kBins sums.
template <class FieldOf, class WeightOf>
__device__ Selected select_greatest(Sum* mass, const uint64_t* list, int64_t count, int bits, Sum wanted,
                                    const FieldOf& field_of, const WeightOf& weight_of) {
  Selected result{0, 0, 0};
  for (int level = 0; level < 3; ++level) {
    const int shift = level == 0 ? 21 : level == 1 ? 10 : 0, size = level == 2 ? 1024 : kBins;
    if (shift >= bits) continue;
    for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) mass[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const uint32_t field = field_of(list[i]), part = field >> shift;
      if (part / static_cast<uint32_t>(size) != (result.field >> shift) / static_cast<uint32_t>(size))
        continue;
      if (const Sum weight = weight_of(list[i]); weight > 0)
        atomicAdd(&mass[part % static_cast<uint32_t>(size)], weight);
    }
    __syncthreads();
    const Found bin =
        find_running(size, wanted - 1 - result.above, [&](int64_t i) { return mass[size - 1 - i]; });
    result.field |= static_cast<uint32_t>(size - 1 - bin.at) << shift;
    result.above += bin.before;
    result.at = bin.value;
    __syncthreads();
  }
  return result;
}

template <class ValueOf>
__device__ Sum sum_over(int64_t count, const ValueOf& value_of) {
  Sum sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += value_of(i);
  return block_scan(sum).total;
}

}  // namespace genesis::cuda
