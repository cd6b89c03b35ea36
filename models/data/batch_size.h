// How large a batch of rows of tokens may be. Used by the sources of batches, ahead of the first one.
#pragma once

#include <cstdint>

namespace genesis::data {

// The tokens of a batch. Throws Error that names both sizes where one is not positive, where their product overflows, and where `arrays`
// tensors i64[batch_size, sequence_length] are more than this machine has memory left for.
int64_t tokens_in_batch(int64_t batch_size, int64_t sequence_length, int arrays);

// How often `size` goes into `whole`, rounded up. No sum of the two is made, which might overflow.
constexpr int64_t divided_up(int64_t whole, int64_t size) {
  return whole / size + (whole % size > 0 ? 1 : 0);
}

}  // namespace genesis::data
