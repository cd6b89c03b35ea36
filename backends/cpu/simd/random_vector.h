// Long runs of random numbers, vectorized for this CPU. They have the same bits as the numbers that schema/core/philox.h gives
// one by one.
#pragma once

#include <cstdint>

namespace genesis::cpu {

struct RandomKey {
  uint64_t seed;
  uint32_t stream, step;
};

inline constexpr int64_t kRandomChunk = 1024;  // most elements of one call

// Write the words, uniform or normal numbers of elements [first, first + n). `first` is a multiple of 4. `words` needs space for
// kRandomChunk words, whatever n is.
void random_words(RandomKey key, int64_t first, int64_t n, uint32_t* words);
void random_uniforms(RandomKey key, int64_t first, int64_t n, float* y);
void random_normals(RandomKey key, int64_t first, int64_t n, float* y);

}  // namespace genesis::cpu
