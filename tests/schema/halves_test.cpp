// Tests the halves of an f32: together they are the number, and the upper one is a bf16 rounded to nearest.
#include "schema/core/halves.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "schema/core/float16.h"

namespace genesis {
namespace {

// Returns the result of a cast to bf16, except that ties round away from zero.
uint16_t rounded(uint32_t bits) {
  const bool between = (bits & 0xffffu) == 0x8000u;
  return static_cast<uint16_t>(between ? (bits >> 16) + 1 : bf16(std::bit_cast<float>(bits)).bits);
}

// Calls `body` for every upper half, with all critical lower halves and with a sample of the others.
template <class Body>
void for_many_numbers(const Body& body) {
  for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
    for (const uint32_t lower : {0u, 1u, 2u, 0x7ffeu, 0x7fffu, 0x8000u, 0x8001u, 0xfffeu, 0xffffu})
      body(upper << 16 | lower);
    for (uint32_t lower = 3; lower <= 0xffff; lower += 1021) body(upper << 16 | lower);
  }
}

TEST(Halves, TogetherAreTheNumber) {
  int64_t wrong = 0, numbers = 0;
  for_many_numbers([&](uint32_t bits) {
    if (std::isnan(std::bit_cast<float>(bits))) return;
    ++numbers;
    const Halves halves = split_halves(bits);
    wrong += join_halves(halves) != bits || halves.upper != rounded(bits);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(numbers, 4'000'000);
}

TEST(Halves, KeepNanANanOfItsSign) {
  for_many_numbers([&](uint32_t bits) {
    if (!std::isnan(std::bit_cast<float>(bits))) return;
    const Halves halves = split_halves(bits);
    const uint32_t joined = join_halves(halves);
    ASSERT_TRUE(std::isnan(std::bit_cast<float>(static_cast<uint32_t>(halves.upper) << 16))) << bits;
    ASSERT_TRUE(std::isnan(std::bit_cast<float>(joined))) << bits;
    ASSERT_EQ(joined >> 31, bits >> 31);
    const Halves again = split_halves(joined);
    ASSERT_TRUE(again.upper == halves.upper && again.lower == halves.lower) << bits;
  });
}

TEST(Halves, OfTheLargestNumbers) {
  EXPECT_EQ(split_halves(0x7f7fffffu).upper, 0x7f80u) << "as a cast: infinity";
  EXPECT_EQ(join_halves(split_halves(0x7f7fffffu)), 0x7f7fffffu);
  EXPECT_EQ(join_halves(split_halves(0xff800000u)), 0xff800000u);
  EXPECT_EQ(join_halves(split_halves(0x80000000u)), 0x80000000u) << "-0";
}

}  // namespace
}  // namespace genesis
