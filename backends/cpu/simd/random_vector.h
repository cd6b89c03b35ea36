// Long runs of random numbers, vectorised for the CPU at hand: the same bits as schema/core/philox.h gives one by
// one. Used by kernels/tensor/random.cpp and kernels/nn/sample.cpp.
#pragma once

#include <cstdint>

namespace genesis::cpu {

struct RandomKey {
  uint64_t seed;
  uint32_t stream, step;
};

inline constexpr int64_t kRandomChunk = 1024;  // elements of one call at most

// Words of elements [first, first + n); first is a multiple of 4. Room for kRandomChunk words is needed.
void random_words(RandomKey key, int64_t first, int64_t n, uint32_t* words);
void random_uniforms(RandomKey key, int64_t first, int64_t n, float* y);
void random_normals(RandomKey key, int64_t first, int64_t n, float* y);

}  // namespace genesis::cpu
