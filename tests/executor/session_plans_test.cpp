// Tests that a Session keeps a bounded number of the most recently used plans, whatever sizes it runs.
#include <malloc.h>

#include <cmath>

#include "executor/inspector.h"
#include "executor/recently_used.h"
#include "executor/session.h"
#include "executor/session_options.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;

constexpr const char* kModel = R"(
state @w: f32[2] parameter trainable = (2.0, -1.0)
entry scale(x: f32[batch,2]) {
  %scaled = mul(x, @w)
  %row = sum(%scaled) {axes=(1)}
  return y = %row
}
)";

NamedTensors rows(int64_t count) {
  std::vector<float> x;
  for (int64_t i = 0; i < count; ++i) x.push_back(static_cast<float>(i)), x.push_back(1);
  return {{"x", Tensor::of<float>({count, 2}, x)}};
}
void expect_right(const NamedTensors& out, int64_t count) {
  const Doubles y = out.at("y").to_doubles();
  ASSERT_EQ(static_cast<int64_t>(y.size()), count);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 2.0 * static_cast<double>(i) - 1) << count;
}
Session session(SessionOptions options = {}) {
  return Session(std::shared_ptr<const Model>(parse_text(kModel)), options);
}

TEST(RecentlyUsed, TheOldestGoesButNotWhatIsInUse) {
  RecentlyUsed<int, int> kept(2);
  for (int i : {1, 2}) kept.add(i, std::make_shared<int>(10 * i));
  EXPECT_EQ(*kept.find(1), 10);  // now 2 is the oldest
  kept.add(3, std::make_shared<int>(30));
  EXPECT_EQ(kept.find(2), nullptr);
  const auto held = kept.find(1);
  EXPECT_EQ(*kept.find(3), 30);
  kept.add(4, std::make_shared<int>(40));
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept.find(1), held);
  EXPECT_EQ(kept.find(3), nullptr);
  const auto also_held = kept.find(4);
  kept.add(5, std::make_shared<int>(50));
  EXPECT_EQ(kept.size(), 2u) << "all others are in use";
  EXPECT_EQ(kept.find(5), nullptr);
}

TEST(SessionPlans, AreBoundedAndRightWhenMadeAgain) {
  Session few = session({.max_plans = 3});
  for (int round = 0; round < 2; ++round)
    for (int64_t count = 0; count < 10; ++count) {
      expect_right(few.run("scale", rows(count)), count);
      EXPECT_LE(Inspector(few).memory().plans, 3);
    }
  Session one = session({.max_plans = 1});
  for (int64_t count : {4, 5, 4, 4, 5}) expect_right(one.run("scale", rows(count)), count);
  EXPECT_EQ(Inspector(one).memory().plans, 1);
  expect_error([] { session({.max_plans = 0}); }, {"max_plans is 0", "at least one"});
}

TEST(SessionPlans, WhatIsStartedOrStagedStays) {
  Session one = session({.max_plans = 1});
  one.start("scale", rows(7));
  const NamedTensors next = rows(8);
  one.stage("scale", next);
  for (int64_t count = 1; count < 6; ++count) EXPECT_EQ(one.plan("scale", {{"batch", count}}).entry, "scale");
  expect_right(one.result(), 7);
  one.start("scale", next);
  one.plan("scale", {{"batch", 3}});
  expect_right(one.result(), 8);
}

TEST(SessionPlans, APlanIsTheCallersForGood) {
  Plan plan;
  {
    Session one = session({.max_plans = 1});
    plan = one.plan("scale", {{"batch", 5}});
    for (int64_t count = 1; count < 5; ++count) one.run("scale", rows(count));
    EXPECT_EQ(one.plan("scale", rows(5)).steps.size(), plan.steps.size());
  }
  EXPECT_EQ(plan.bindings.at("batch"), 5);
  EXPECT_EQ(plan.outputs[0].type.to_string(), "f32[5]");
}

// Sizes by symbol, and inputs with these sizes, are the same key.
TEST(SessionPlans, SizesAndInputsThatHaveThemGiveTheSamePlan) {
  Session one = session({});
  const Plan by_sizes = one.plan("scale", {{"batch", 5}}), by_inputs = one.plan("scale", rows(5));
  EXPECT_EQ(by_inputs.bindings, by_sizes.bindings);
  EXPECT_EQ(by_inputs.steps.size(), by_sizes.steps.size());
  EXPECT_EQ(Inspector(one).memory().plans, 1);
  Session fixed(std::shared_ptr<const Model>(
      parse_text("entry negate(x: f32[2]) {\n  %y = neg(x)\n  return y = %y\n}\n")));
  EXPECT_EQ(fixed.plan("negate").entry, fixed.plan("negate", {}).entry);
  expect_error([&] { one.plan("scale"); }, {"'scale'", "batch"});
  expect_error([&] { one.plan("scale", NamedTensors{}); }, {"'scale'", "missing"});
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Every plan would take 5 kB if it were kept.
TEST(SessionPlans, ManySizesTakeNoMoreMemoryThanAFew) {
  Session many = session({.threads = 1});
  const auto run_sizes = [&](int64_t from, int64_t to) {
    for (int64_t count = from; count < to; ++count) many.run("scale", rows(count));
    return mallinfo2().uordblks;
  };
  const size_t early = run_sizes(0, 200);
  const size_t late = run_sizes(200, 700);
  EXPECT_EQ(Inspector(many).memory().plans, SessionOptions().max_plans);
  EXPECT_LT(late, early + (size_t{1} << 20));
  expect_right(many.run("scale", rows(7)), 7);
}
#endif

// Splitting states into halves invalidates all earlier plans.
TEST(SessionPlans, ThoseOfWholeWeightsGoWhenWeightsAreSplit) {
  std::shared_ptr<Model> model = parse_text(R"(
state @w: f32[16,16] parameter trainable
entry loss(x: f32[batch,16]) {
  %y = linear(x, @w)
  %squares = square(%y)
  %loss = mean(%squares)
  return loss = %loss
}
)");
  std::vector<float> w(256), x(48);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i));
  model->set_initial(0, Tensor::of<float>({16, 16}, w));
  passes::add_train_step(*model, passes::parse_train_options("adamw,lr=1e-2,precision=bf16"));
  Session halves(model, {.weight_halves = true}), plain(model);
  const NamedTensors three = {{"x", Tensor::of<float>({3, 16}, x)}};
  for (int64_t count = 1; count < 9; ++count) halves.plan("loss", {{"batch", count}});
  EXPECT_EQ(Inspector(halves).memory().plans, 8);
  const Doubles expected = plain.run("loss", three).at("loss").to_doubles();
  halves.start("loss", three);
  halves.plan("train_step", {{"batch", 3}});
  EXPECT_EQ(Inspector(halves).memory().plans, 1);
  EXPECT_EQ(halves.result().at("loss").to_doubles(), expected);
  halves.run("train_step", three);
  plain.run("train_step", three);
  EXPECT_EQ(halves.run("loss", three).at("loss").to_doubles(),
            plain.run("loss", three).at("loss").to_doubles());
}

}  // namespace
}  // namespace genesis
