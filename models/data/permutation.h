// A shuffled order of 0..n-1 that takes no memory: element i of epoch e is a pure function of (seed, e, i), so that training can
// resume at any position. It is a Feistel network over the next power of four, applied repeatedly until the result falls inside
// the range (Black & Rogaway, "Ciphers with arbitrary finite domains", 2002).
#pragma once

#include <cstdint>

namespace genesis::data {

// The finalizer of SplitMix64 (Steele, Lea & Flood, 2014): every input bit affects every output bit.
uint64_t mix(uint64_t x);

class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);
  int64_t operator[](int64_t i) const;  // i in [0, size)

 private:
  uint64_t encrypt(uint64_t x) const;

  uint64_t size_, key_;
  int half_bits_;
};

}  // namespace genesis::data
