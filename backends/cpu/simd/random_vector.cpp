// Compiled once per instruction set. Floats are computed by plain loops that the compiler vectorizes: each operation rounds once,
// so every instruction set gives the same bits.
#include "backends/cpu/simd/random_vector.h"

#include "backends/cpu/simd/highway_targets.h"
#include "schema/core/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/simd/random_vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

constexpr int64_t kBlocks = 1;

void philox_blocks(RandomKey key, uint64_t block, uint32_t* words) {
  const PhiloxBlock one = philox(key.seed, key.stream, key.step, block);
  for (int64_t i = 0; i < 4; ++i) words[i] = one.word[i];
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using U32 = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<U32>;
constexpr U32 kU32;
constexpr int64_t kBlocks = hn::MaxLanes(U32());  // computed side by side, one block per lane

struct Product {
  Words high, low;
};

// Returns the 64-bit products of all lanes, computed separately for even and odd lanes.
HWY_INLINE Product multiply(Words x, Words by) {
  const hn::RepartitionToWide<U32> wide;
  const auto even = hn::MulEven(x, by);
  const auto odd = hn::MulEven(hn::BitCast(kU32, hn::ShiftRight<32>(hn::BitCast(wide, x))), by);
  return {hn::OddEven(hn::BitCast(kU32, odd), hn::BitCast(kU32, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(kU32, hn::ShiftLeft<32>(odd)), hn::BitCast(kU32, even))};
}

// Computes philox() of schema/core/philox.h for kBlocks consecutive blocks.
HWY_INLINE void philox_blocks(RandomKey key, uint64_t block, uint32_t* words) {
  HWY_ALIGN uint32_t low[kBlocks], high[kBlocks];
  for (int64_t i = 0; i < kBlocks; ++i) {
    low[i] = static_cast<uint32_t>(block + static_cast<uint64_t>(i));
    high[i] = static_cast<uint32_t>((block + static_cast<uint64_t>(i)) >> 32);
  }
  Words c0 = hn::Load(kU32, low), c1 = hn::Load(kU32, high);
  Words c2 = hn::Set(kU32, key.stream), c3 = hn::Set(kU32, key.step);
  uint32_t key0 = static_cast<uint32_t>(key.seed), key1 = static_cast<uint32_t>(key.seed >> 32);
  const Words by0 = hn::Set(kU32, 0xD2511F53u), by2 = hn::Set(kU32, 0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const Product a = multiply(c0, by0), b = multiply(c2, by2);
    c0 = hn::Xor(hn::Xor(b.high, c1), hn::Set(kU32, key0));
    c1 = b.low;
    c2 = hn::Xor(hn::Xor(a.high, c3), hn::Set(kU32, key1));
    c3 = a.low;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, kU32, words);
}

#endif

void words_of(RandomKey key, int64_t first, int64_t n, uint32_t* words) {
  for (int64_t i = 0; i < n; i += 4 * kBlocks)
    philox_blocks(key, static_cast<uint64_t>(first + i) / 4, words + i);
}

void uniforms_of(RandomKey key, int64_t first, int64_t n, float* y) {
  uint32_t words[kRandomChunk];
  words_of(key, first, n, words);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24f;
}

void normals_of(RandomKey key, int64_t first, int64_t n, float* y) {
  uint32_t words[kRandomChunk], even[kRandomChunk / 2], odd[kRandomChunk / 2];
  float cosines[kRandomChunk / 2], sines[kRandomChunk / 2];
  words_of(key, first, n, words);
  const int64_t pairs = (n + 1) / 2;
  for (int64_t i = 0; i < pairs; ++i) even[i] = words[2 * i], odd[i] = words[2 * i + 1];
  for (int64_t i = 0; i < pairs; ++i) {
    const NormalPair pair = normals_from(even[i], odd[i]);
    cosines[i] = pair.first, sines[i] = pair.second;
  }
  for (int64_t i = 0; i < n / 2; ++i) y[2 * i] = cosines[i], y[2 * i + 1] = sines[i];
  if (n % 2 == 1) y[n - 1] = cosines[n / 2];
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(words_of);
HWY_EXPORT(uniforms_of);
HWY_EXPORT(normals_of);

void random_words(RandomKey key, int64_t first, int64_t n, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(words_of)(key, first, n, words);
}

void random_uniforms(RandomKey key, int64_t first, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(uniforms_of)(key, first, n, y);
}

void random_normals(RandomKey key, int64_t first, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(normals_of)(key, first, n, y);
}

}  // namespace genesis::cpu
#endif
