// Checks how large a batch of token rows may be.
#pragma once

#include <cstdint>

namespace genesis::data {

// Returns the number of tokens of a batch. Throws Error that names both sizes if one is not positive, if their product overflows,
// or if `arrays` tensors i64[batch_size, sequence_length] exceed the memory that this machine has left.
int64_t tokens_in_batch(int64_t batch_size, int64_t sequence_length, int arrays);

// Returns whole / size, rounded up. Never computes their sum, which might overflow.
constexpr int64_t divided_up(int64_t whole, int64_t size) {
  return whole / size + (whole % size > 0 ? 1 : 0);
}

}  // namespace genesis::data
