// Tests the planner on edge cases, on instances with a known optimum, and its promises: valid, aligned and repeatable
// plans.
#include "passes/memory/offsets/offset_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "passes/memory/offsets/ejection_search.h"
#include "passes/memory/offsets/offset_greedy.h"
#include "passes/memory/offsets/offset_problem.h"
#include "passes/memory/offsets/overlap_check.h"
#include "passes/memory/offsets/peak_packing.h"
#include "passes/memory/offsets/search_tools.h"
#include "passes/memory/offsets/valley_search.h"
#include "schema/core/error.h"

namespace genesis::passes {
namespace {

using Buffers = std::vector<PlanBuffer>;

void expect_valid(const Buffers& buffers, const OffsetPlan& plan, int64_t alignment = 1) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  EXPECT_FALSE(find_overlap(buffers, plan.offsets));
  int64_t height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_EQ(plan.offsets[i] % alignment, 0);
    height = std::max(height, plan.offsets[i] + buffers[i].size);
  }
  EXPECT_EQ(plan.height, height);
  EXPECT_GE(plan.height, plan.lower_bound);
}

// Cuts a rectangle of `width` steps and `height` bytes into buffers, so that the optimum is `height`.
Buffers cut_rectangle(int count, int64_t width, int64_t height, unsigned seed) {
  struct Box {
    int64_t x0, x1, y0, y1;
  };
  std::mt19937 random(seed);
  std::vector<Box> boxes = {{0, width, 0, height}};
  while (static_cast<int>(boxes.size()) < count) {
    Box& box = boxes[random() % boxes.size()];
    Box other = box;
    if (random() % 2 == 0) {
      if (box.x1 - box.x0 < 2) continue;
      box.x1 = other.x0 =
          box.x0 + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(box.x1 - box.x0 - 1));
    } else {
      if (box.y1 - box.y0 < 2) continue;
      box.y1 = other.y0 =
          box.y0 + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(box.y1 - box.y0 - 1));
    }
    boxes.push_back(other);
  }
  Buffers buffers;
  for (const Box& box : boxes) buffers.push_back({box.x0, box.x1, box.y1 - box.y0});
  std::shuffle(buffers.begin(), buffers.end(), random);
  return buffers;
}

Problem problem_of(const Buffers& buffers) {
  std::vector<Lifetime> lifetimes;
  for (const PlanBuffer& b : buffers) lifetimes.push_back({b.lower, b.upper, b.size});
  return make_problem(lifetimes);
}

TEST(OffsetPlanner, NothingToPlace) {
  const OffsetPlan plan = plan_offsets({});
  EXPECT_EQ(plan.height, 0);
  EXPECT_EQ(plan.lower_bound, 0);
  EXPECT_EQ(plan.ratio(), 1.0);
}

TEST(OffsetPlanner, BuffersWithoutBytesOrTime) {
  const Buffers buffers = {{0, 5, 0}, {3, 3, 64}, {0, 2, 10}};
  const OffsetPlan plan = plan_offsets(buffers);
  expect_valid(buffers, plan);
  EXPECT_EQ(plan.height, 64);  // even a buffer that never lives is inside the arena
  EXPECT_EQ(plan.ratio(), 1.0);
}

TEST(OffsetPlanner, SharesBytesBetweenLifetimesThatTouch) {
  const Buffers buffers = {{0, 5, 100}, {5, 9, 100}};
  EXPECT_EQ(plan_offsets(buffers).height, 100);
}

TEST(OffsetPlanner, ExtremeTimes) {
  const Buffers buffers = {{INT64_MIN, INT64_MAX, 7}, {INT64_MAX - 1, INT64_MAX, 5}};
  const OffsetPlan plan = plan_offsets(buffers);
  expect_valid(buffers, plan);
  EXPECT_EQ(plan.height, 12);
}

TEST(OffsetPlanner, AlignsOffsetsAndCountsNoPaddingOnTop) {
  const Buffers buffers = {{0, 2, 10}, {0, 2, 65}, {0, 1, 1}};
  const OffsetPlan plan = plan_offsets(buffers, {.alignment = 64});
  expect_valid(buffers, plan, 64);
  EXPECT_EQ(plan.lower_bound, 64 + 128 + 64 - 63);
}

TEST(OffsetPlanner, RefusesBadInput) {
  const auto complaint = [](const Buffers& buffers, OffsetOptions options = {}) -> std::string {
    try {
      plan_offsets(buffers, options);
    } catch (const Error& error) {
      return error.message();
    }
    return "no complaint";
  };
  EXPECT_EQ(complaint({{0, 1, -1}}), "plan_offsets: buffer 0 has size -1, expected 0 or more");
  EXPECT_EQ(complaint({{0, 1, 1}, {2, 1, 1}}),
            "plan_offsets: buffer 1 lives in [2, 1), expected lower <= upper");
  EXPECT_EQ(complaint({{0, 1, 1}}, {.alignment = 0}), "plan_offsets: alignment is 0, expected at least 1");
  EXPECT_NE(complaint({{0, 1, INT64_MAX / 2}, {0, 1, INT64_MAX / 2}, {0, 1, 5}}).find("2^63"),
            std::string::npos);
}

TEST(OffsetPlanner, StretchesOfTimeAreIndependent) {
  const Buffers buffers = {{0, 2, 8}, {1, 3, 8}, {10, 12, 5}, {11, 13, 11}, {10, 13, 1}, {20, 21, 3}};
  const OffsetPlan plan = plan_offsets(buffers);
  expect_valid(buffers, plan);
  EXPECT_EQ(plan.height, 17);
}

// Lifetimes as in backpropagation: the first activation made is the last one freed.
TEST(OffsetPlanner, NestedLifetimesMeetTheBoundByGreedyOrdersAlone) {
  Buffers buffers;
  for (int64_t i = 0; i < 3000; ++i) {
    buffers.push_back({i, 6000 - i, 100 + i % 7});
    buffers.push_back({6000 - i, 6002 - i, 40});
  }
  const OffsetPlan plan = plan_offsets(buffers, {.search_budget = 0});
  expect_valid(buffers, plan);
  EXPECT_EQ(plan.height, plan.lower_bound);
}

// Activations freed in reverse, scratch memory everywhere, and gradients that live until the optimizer at the end.
Buffers training_step(int64_t layers, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  const auto size = [&] { return (1 + below(60)) * (below(4) == 0 ? 16 : 1); };
  Buffers buffers;
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t back = layers + 1 + i;
    buffers.push_back({i, 2 * layers + 2 - i + below(3), size()});
    buffers.push_back({i, i + 1, size() * 3});
    buffers.push_back({back, 4 * layers + 2 - i - below(2), size() / 2 + 1});
    buffers.push_back({back, back + 1, size() * 2});
  }
  return buffers;
}

TEST(OffsetPlanner, PackingByPeaksMeetsTheBoundOfTrainingSteps) {
  int greedy_misses = 0;
  for (unsigned seed = 1; seed <= 7; ++seed) {
    const Buffers buffers = training_step(150, seed);
    const OffsetPlan greedy = plan_offsets(buffers, {.search_budget = 0});
    greedy_misses += greedy.height > greedy.lower_bound;
    const Problem problem = problem_of(buffers);
    int64_t budget = kQuickSearch;
    const auto packed = pack_by_peaks(problem, problem.bound, budget);
    ASSERT_TRUE(packed) << "seed " << seed;
    EXPECT_EQ(packed->height, problem.bound);
    EXPECT_EQ(height_of(problem, packed->offsets), packed->height);
    EXPECT_FALSE(find_overlap(buffers, packed->offsets));
    EXPECT_GE(budget, kQuickSearch - kQuickSearch / 20);
  }
  EXPECT_EQ(greedy_misses, 7);
}

TEST(OffsetPlanner, PackingByPeaksKeepsToItsCeilingAndItsBudget) {
  const Problem problem = problem_of(cut_rectangle(200, 40, 300, 11));
  int64_t budget = kQuickSearch, nothing = 0;
  EXPECT_FALSE(pack_by_peaks(problem, problem.bound, budget));
  EXPECT_GT(budget, 0);
  const auto packed = pack_by_peaks(problem, 2 * problem.bound, budget);
  ASSERT_TRUE(packed);
  EXPECT_LE(packed->height, 2 * problem.bound);
  EXPECT_FALSE(pack_by_peaks(problem, 2 * problem.bound, nothing));
}

TEST(OffsetPlanner, EveryFitAndOrderIsValid) {
  const Buffers buffers = cut_rectangle(700, 300, 5000, 3);
  const Problem problem = problem_of(buffers);
  EXPECT_EQ(problem.bound, 5000);
  std::vector<int32_t> order(buffers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::mt19937 random(5);
  for (const Fit fit : {Fit::kOnTop, Fit::kFirst, Fit::kBest}) {
    std::shuffle(order.begin(), order.end(), random);
    const Solution solution = place_in_order(problem, order, fit);
    EXPECT_FALSE(find_overlap(buffers, solution.offsets));
    EXPECT_EQ(solution.height, height_of(problem, solution.offsets));
  }
}

TEST(OffsetPlanner, SearchFindsPerfectPackingsThatGreedyOrdersMiss) {
  int greedy_misses = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const Buffers buffers = cut_rectangle(200, 1000, 1 << 20, seed);
    greedy_misses += plan_offsets(buffers, {.search_budget = 0}).height > 1 << 20;
    const OffsetPlan plan = plan_offsets(buffers, {.search_budget = kThoroughSearch, .max_seconds = 60});
    expect_valid(buffers, plan);
    EXPECT_EQ(plan.lower_bound, 1 << 20);
    EXPECT_LE(plan.ratio(), 1.01) << "seed " << seed;
  }
  EXPECT_GE(greedy_misses, 3);
}

TEST(OffsetPlanner, SearchesKeepWhatTheyPromise) {
  constexpr int64_t kHeight = 1 << 20;
  const Problem problem = problem_of(cut_rectangle(150, 1000, kHeight, 4));
  std::vector<int32_t> order(problem.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  const Solution start = place_in_order(problem, order, Fit::kOnTop);  // a poor one
  const int64_t ceiling = kHeight + kHeight / 10;
  ASSERT_GT(start.height, ceiling);
  const std::atomic<int> nobody = 1;
  WorkMeter meter(4'000'000'000, WorkMeter::Deadline::max(), nobody, 0);
  const ConflictGraph conflicts(problem);
  EjectionSearch ejection(problem, conflicts, 1);
  ejection.aim(start, ceiling, meter);
  ASSERT_TRUE(ejection.run(meter));
  EXPECT_LE(height_of(problem, ejection.offsets()), ceiling);
  ValleySearch valleys(problem, 1);
  bool found = false;
  for (int descent = 0; descent < 200 && !found; ++descent) found = valleys.solve(kHeight, 5000, meter);
  ASSERT_TRUE(found);
  EXPECT_EQ(height_of(problem, valleys.offsets()), kHeight);
}

TEST(OffsetPlanner, WorkMeterStopsBehindAWinner) {
  std::atomic<int> winner = 3;
  WorkMeter front(INT64_MAX, WorkMeter::Deadline::max(), winner, 1);
  WorkMeter behind(INT64_MAX, WorkMeter::Deadline::max(), winner, 2);
  EXPECT_TRUE(behind.spend(1));
  winner = 1;
  EXPECT_FALSE(behind.spend(1'000'000'000));
  EXPECT_TRUE(front.spend(1'000'000'000));
}

TEST(OffsetPlanner, ConflictGraphAgreesWithComparingEveryPair) {
  const Problem problem = problem_of(cut_rectangle(80, 30, 500, 2));
  const ConflictGraph graph(problem);
  for (size_t i = 0; i < problem.blocks.size(); ++i) {
    std::vector<int32_t> expected;
    for (size_t j = 0; j < problem.blocks.size(); ++j)
      if (i != j && problem.blocks[i].first < problem.blocks[j].last &&
          problem.blocks[j].first < problem.blocks[i].last)
        expected.push_back(static_cast<int32_t>(j));
    const auto found = graph.of(static_cast<int32_t>(i));
    std::vector<int32_t> sorted(found.begin(), found.end());
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, expected) << "block " << i;
  }
}

// No perfect packing is within reach here, so all search threads use up their work, and the result must still not
// vary.
TEST(OffsetPlanner, SameInputSameOffsets) {
  const Buffers buffers = cut_rectangle(300, 40, 300, 11);
  const OffsetOptions options{.search_budget = 400'000'000, .max_seconds = 60};
  const OffsetPlan plan = plan_offsets(buffers, options);
  expect_valid(buffers, plan);
  EXPECT_LT(plan.height, plan_offsets(buffers, {.search_budget = 0}).height);
  for (int again = 0; again < 3; ++again) EXPECT_EQ(plan.offsets, plan_offsets(buffers, options).offsets);
}

}  // namespace
}  // namespace genesis::passes
