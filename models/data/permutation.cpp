#include "models/data/permutation.h"

#include <bit>

namespace genesis::data {
namespace {

constexpr int kRounds = 6;

}  // namespace

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch)
    : size_(static_cast<uint64_t>(size)), key_(mix(seed + 0x9e3779b97f4a7c15ull * (epoch + 1))) {
  const int bits = size_ > 1 ? std::bit_width(size_ - 1) : 1;
  half_bits_ = (bits + 1) / 2;
}

uint64_t Permutation::encrypt(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_, right = x & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (mix(key_ + (round << 56) + right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator[](int64_t i) const {
  uint64_t x = static_cast<uint64_t>(i);
  do x = encrypt(x);
  while (x >= size_);
  return static_cast<int64_t>(x);
}

}  // namespace genesis::data
