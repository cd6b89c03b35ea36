// Tests where a run may have been, according to the marks it has set. Needs no GPU.
#include "executor/cuda/step_marks.h"

#include <gtest/gtest.h>

namespace genesis {
namespace {

using Steps = std::vector<size_t>;
constexpr double kLong = 500, kShort = 30;  // microseconds; a mark is 100 from others and from the end

std::vector<int> add_each(StepMarks& marks, size_t steps) {
  std::vector<int> got;
  for (size_t i = 0; i < steps; ++i) got.push_back(marks.add(i, i + 1));
  return got;
}

TEST(StepMarks, LongStepsHaveAMarkEach) {
  StepMarks marks(StepStreams::one_line(4), std::vector<double>(4, kLong));
  EXPECT_EQ(add_each(marks, 4), (std::vector<int>{0, 1, 2, -1})) << "nothing comes behind the last";
  const int32_t none[] = {0, 0, 0}, one[] = {1, 0, 0}, all[] = {1, 1, 1};
  EXPECT_EQ(marks.under_way(none), (Steps{0, 1}));
  EXPECT_EQ(marks.under_way(one), (Steps{1, 2}));
  EXPECT_EQ(marks.under_way(all), (Steps{3}));
}

TEST(StepMarks, ShortStepsShareOne) {
  std::vector<double> microseconds(10, kShort);
  microseconds[4] = kLong;
  StepMarks marks(StepStreams::one_line(10), microseconds);
  EXPECT_EQ(add_each(marks, 10), (std::vector<int>{-1, -1, -1, 0, 1, -1, -1, -1, -1, -1}));
  const int32_t none[] = {0, 0}, one[] = {1, 0}, both[] = {1, 1};
  EXPECT_EQ(marks.under_way(none), (Steps{0, 1, 2, 3, 4}));
  EXPECT_EQ(marks.under_way(one), (Steps{4, 5}));
  EXPECT_EQ(marks.under_way(both), (Steps{5, 6, 7, 8, 9}));
}

TEST(StepMarks, StepsOfOneKernelStayTogether) {
  const std::vector<double> microseconds = {kShort, kLong, kLong, kLong, kShort};
  StepMarks last(StepStreams::one_line(5), microseconds);
  EXPECT_EQ(last.add(0, 1), StepMarks::kNone);
  EXPECT_EQ(last.add(1, 4), StepMarks::kNone) << "too little is left";
  EXPECT_EQ(last.add(4, 5), StepMarks::kNone);
  const int32_t none[] = {0};
  EXPECT_EQ(last.under_way(none), (Steps{0, 1, 2, 3, 4}));
  StepMarks first(StepStreams::one_line(5), microseconds);
  EXPECT_EQ(first.add(0, 3), 0);
  EXPECT_EQ(first.add(3, 4), StepMarks::kNone);
  EXPECT_EQ(first.under_way(none), (Steps{0, 1, 2, 3}));
}

// Steps 1 and 3 run aside; 3 waits for 2, and 4 for 3.
TEST(StepMarks, WhatWaitsForTheOtherStreamHasNotBegun) {
  StepStreams streams = StepStreams::one_line(6);
  streams.stream[1] = streams.stream[3] = StepStreams::kAside;
  streams.waits_for[1][StepStreams::kMain] = StepStreams::kBegin;
  streams.waits_for[3][StepStreams::kMain] = 2;
  streams.waits_for[4][StepStreams::kAside] = 3;
  StepMarks marks(streams, std::vector<double>(6, kLong));
  EXPECT_EQ(add_each(marks, 6), (std::vector<int>{0, 1, 2, 3, 4, -1}));
  const auto under_way = [&](std::vector<int32_t> set) { return marks.under_way(set.data()); };
  EXPECT_EQ(under_way({0, 0, 0, 0, 0}), (Steps{0, 1, 2, 3})) << "2 may be done and its mark on its way";
  EXPECT_EQ(under_way({0, 1, 0, 0, 0}), (Steps{0, 2, 3}));
  EXPECT_EQ(under_way({1, 1, 1, 0, 0}), (Steps{3, 4, 5}));
  EXPECT_EQ(under_way({1, 1, 1, 1, 0}), (Steps{4, 5}));
}

}  // namespace
}  // namespace genesis
