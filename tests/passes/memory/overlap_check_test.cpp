// Tests the overlap check against handmade plans and against comparing every pair.
#include "passes/memory/offsets/overlap_check.h"

#include <gtest/gtest.h>

#include <random>

namespace genesis::passes {
namespace {

using Buffers = std::vector<PlanBuffer>;
using Offsets = std::vector<int64_t>;

TEST(OverlapCheck, AcceptsNeighborsInTimeAndInBytes) {
  const Buffers buffers = {{0, 2, 10}, {2, 4, 10}, {0, 4, 5}};
  EXPECT_FALSE(find_overlap(buffers, Offsets{0, 0, 10}));
}

TEST(OverlapCheck, NamesThePair) {
  const Buffers buffers = {{0, 3, 10}, {5, 6, 10}, {2, 4, 5}};
  const auto found = find_overlap(buffers, Offsets{0, 0, 9});
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, std::make_pair(size_t{0}, size_t{2}));
}

TEST(OverlapCheck, SeesABufferInsideAnother) {
  const Buffers buffers = {{0, 3, 100}, {1, 2, 1}};
  EXPECT_TRUE(find_overlap(buffers, Offsets{0, 50}));
  EXPECT_TRUE(find_overlap(buffers, Offsets{0, 0}));
  EXPECT_FALSE(find_overlap(buffers, Offsets{0, 100}));
}

TEST(OverlapCheck, IgnoresBuffersWithoutBytesOrTime) {
  const Buffers buffers = {{0, 3, 100}, {1, 2, 0}, {1, 1, 50}};
  EXPECT_FALSE(find_overlap(buffers, Offsets{0, 50, 50}));
}

TEST(OverlapCheck, SurvivesOffsetsNearTheEndOfTheRange) {
  const Buffers buffers = {{0, 3, INT64_MAX}, {0, 3, 8}};
  EXPECT_TRUE(find_overlap(buffers, Offsets{INT64_MAX - 4, INT64_MAX - 1}));
}

TEST(OverlapCheck, AgreesWithComparingEveryPair) {
  std::mt19937 random(7);
  int with_overlap = 0;
  for (int round = 0; round < 400; ++round) {
    Buffers buffers;
    Offsets offsets;
    for (int i = 0; i < 7; ++i) {
      const auto lower = static_cast<int64_t>(random() % 10);
      buffers.push_back(
          {lower, lower + static_cast<int64_t>(random() % 4), static_cast<int64_t>(random() % 5)});
      offsets.push_back(static_cast<int64_t>(random() % 25));
    }
    bool expected = false;
    for (size_t i = 0; i < buffers.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const auto& [al, au, as] = buffers[i];
        const auto& [bl, bu, bs] = buffers[j];
        if (as == 0 || bs == 0 || al == au || bl == bu) continue;
        expected |= al < bu && bl < au && offsets[i] < offsets[j] + bs && offsets[j] < offsets[i] + as;
      }
    EXPECT_EQ(find_overlap(buffers, offsets).has_value(), expected) << "round " << round;
    with_overlap += expected;
  }
  EXPECT_GT(with_overlap, 50);
  EXPECT_LT(with_overlap, 350);
}

}  // namespace
}  // namespace genesis::passes
