// Tests schedules as graphs against PyTorch's formulas, in the recursive or piecewise form of its sources, and
// against rates that PyTorch computed (schedules.json, made by make_schedules.py).
#include "passes/training/schedules.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "executor/snapshot.h"
#include "passes/training/plateau.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/graph/text.h"
#include "schema/ops/create.h"
#include "tests/op_harness.h"

namespace genesis::optim {
namespace {

std::vector<double> rates(const Schedule& schedule, double lr, int64_t steps) {
  auto model = std::make_shared<Model>();
  Graph& graph = model->add_entry("main");
  const Value step = graph.add_input("step", {DType::i64, {}});
  graph.add_output("lr", scheduled_lr(schedule, full(graph, {}, lr, DType::f64), step));
  Session session(model);
  std::vector<double> result;
  for (int64_t i = 0; i < steps; ++i)
    result.push_back(session.run("main", {{"step", Tensor::scalar<int64_t>(i)}}).at("lr").to_doubles()[0]);
  return result;
}

void expect_rates(const Schedule& schedule, double lr, const std::vector<double>& expected) {
  const std::vector<double> got = rates(schedule, lr, static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-7 * lr) << "step " << i << " of schedule " << schedule.index();
}

TEST(Schedules, Constant) { expect_rates(FixedLR{}, 0.5, {0.5, 0.5, 0.5}); }

TEST(Schedules, StepLR) {
  expect_rates(StepLR{.step_size = 3, .gamma = 0.1}, 1.0, {1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001});
}

TEST(Schedules, ExponentialLR) {
  std::vector<double> expected = {2.0};
  for (int i = 1; i < 20; ++i) expected.push_back(expected.back() * 0.9);
  expect_rates(ExponentialLR{.gamma = 0.9}, 2.0, expected);
}

// The example LinearLR(start_factor=0.5, total_iters=4) with lr = 0.05 of PyTorch's documentation.
TEST(Schedules, LinearLR) {
  expect_rates(LinearLR{.total = 4, .start_factor = 0.5, .end_factor = 1.0}, 0.05,
               {0.025, 0.03125, 0.0375, 0.04375, 0.05, 0.05, 0.05});
}

// The recursion in CosineAnnealingLR.get_lr.
TEST(Schedules, CosineAnnealingLR) {
  const double lr = 0.1, min = 0.01;
  const int total = 10;
  std::vector<double> expected = {lr};
  for (int t = 1; t <= total; ++t) {
    const double now = 1 + std::cos(std::numbers::pi * t / total),
                 before = 1 + std::cos(std::numbers::pi * (t - 1) / total);
    expected.push_back(now / before * (expected.back() - min) + min);
  }
  expected.push_back(min);  // the rate stays after the end
  expected.push_back(min);
  expect_rates(CosineAnnealingLR{.total = total, .min_lr = min}, lr, expected);
}

// The formula of get_cosine_schedule_with_warmup in transformers.
TEST(Schedules, WarmupCosine) {
  const int warmup = 4, total = 12;
  std::vector<double> expected;
  for (int t = 0; t <= total; ++t) {
    const double progress = double(t - warmup) / std::max(1, total - warmup);
    expected.push_back(t < warmup ? double(t) / warmup
                                  : std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress))));
  }
  expect_rates(WarmupCosineLR{.total = total, .warmup = warmup}, 1.0, expected);
  expect_rates(WarmupCosineLR{.total = 2, .warmup = 2}, 1.0, {0, 0.5, 1, 1});
}

// OneCycleLR with two phases and anneal_strategy "cos".
TEST(Schedules, OneCycleLR) {
  const double max = 0.1, first = max / 25, last = first / 1e4;
  const int total = 20;
  const double top = 0.3 * total - 1, end = total - 1;
  const auto anneal = [](double from, double to, double part) {
    return to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1);
  };
  std::vector<double> expected;
  for (int t = 0; t < total; ++t)
    expected.push_back(t <= top ? anneal(first, max, t / top) : anneal(max, last, (t - top) / (end - top)));
  EXPECT_NEAR(expected[5], max, 1e-12);
  expected.push_back(last);
  expect_rates(OneCycleLR{.total = total}, max, expected);
}

nlohmann::json golden() {
  return parse_json_text(
      read_whole_file(std::string(GENESIS_SOURCE_ROOT) + "/tests/passes/results/schedules.json"));
}

TEST(Schedules, AreThoseOfPyTorch) {
  const nlohmann::json json = golden();
  ASSERT_GE(json.at("schedules").size(), 21u);
  for (const auto& [text, expected] : json.at("schedules").items()) {
    SCOPED_TRACE(text);
    expect_rates(passes::parse_train_options("sgd," + text).schedule, json.at("lr"),
                 expected.get<std::vector<double>>());
  }
}

// The rate depends on states, so it is tested through the training step, which reads and updates them.
TEST(Schedules, PlateauIsThatOfPyTorchAndGoesOnFromItsStates) {
  const nlohmann::json json = golden();
  ASSERT_EQ(json.at("plateau").size(), 3u);
  for (const auto& [text, expected] : json.at("plateau").items()) {
    SCOPED_TRACE(text);
    std::shared_ptr<Model> model = parse_text(R"(
state @w: f32[] parameter trainable = (1.0)
entry loss() {
  return loss = @w
}
)");
    passes::add_train_step(
        *model, passes::parse_train_options(fmt::format("sgd,lr={},{}", json.at("lr").get<double>(), text)));
    auto session = std::make_unique<Session>(model);
    const auto losses = expected.at("losses").get<std::vector<float>>();
    const auto rates = expected.at("rates").get<std::vector<double>>();
    for (size_t i = 0; i < losses.size(); ++i) {
      session->run(kPlateauEntry, {{"loss", Tensor::scalar<float>(losses[i])}});
      EXPECT_NEAR(session->run("train_step", {}).at("lr").to_doubles()[0], rates[i], 1e-9)
          << "evaluation " << i;
      if (i == losses.size() / 2)
        session = std::make_unique<Session>(std::shared_ptr<Model>(with_values(*session)));
    }
  }
}

TEST(Schedules, PlateauStandsBehindAWarmup) {
  std::shared_ptr<Model> model = parse_text(R"(
state @w: f32[] parameter trainable = (1.0)
entry loss() {
  return loss = @w
}
)");
  passes::add_train_step(
      *model, {.optimizer = SGD{.lr = 1}, .schedule = PlateauLR{.factor = 0.5, .patience = 0, .warmup = 2}});
  Session session(model);
  const auto rate = [&] { return session.run("train_step", {}).at("lr").to_doubles()[0]; };
  EXPECT_EQ(rate(), 0);
  EXPECT_EQ(rate(), 0.5);
  EXPECT_EQ(rate(), 1);
  for (int i = 0; i < 2; ++i) session.run(kPlateauEntry, {{"loss", Tensor::scalar<float>(3)}});
  EXPECT_EQ(rate(), 0.5);
  EXPECT_THROW(passes::add_train_step(*model, {.schedule = PlateauLR{}, .name = "again"}), Error);
}

}  // namespace
}  // namespace genesis::optim
