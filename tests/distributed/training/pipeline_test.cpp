// Tests models whose layers are divided into pipeline stages against one rank that has all layers.
#include <gtest/gtest.h>

#include "passes/training/train_step.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_trains_as;
using testing::train;

std::shared_ptr<const Model> untied(const std::string& name, const std::string& options) {
  const std::shared_ptr<Model> model = testing::small_model(name, 61, false);
  passes::add_training(*model, passes::parse_train_options(options));
  return model;
}

class PipelineParallel : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {
};

TEST_P(PipelineParallel, TrainsAsOneRankDoes) {
  const auto& [name, options, mesh] = GetParam();
  const auto model = name == std::string("mlp") ? testing::training(name, options) : untied(name, options);
  const Curve alone = train(model, {});
  for (const Curve& rank : expect_trains_as(alone, model, mesh))
    EXPECT_LT(rank.memory.optimizer_bytes, alone.memory.optimizer_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, PipelineParallel,
    ::testing::Values(std::tuple{"mlp", "adamw,lr=1e-3,eps=1e-4", "pipeline=2"},
                      std::tuple{"mlp", "adamw,lr=1e-3,eps=1e-4,accumulate=4", "pipeline=2"},
                      std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "pipeline=2"},
                      std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,accumulate=4", "pipeline=2"},
                      std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,accumulate=2", "pipeline=4"},
                      std::tuple{"qwen3", "lion,lr=1e-5,clip_value=0.5,accumulate=2", "pipeline=2"},
                      std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,accumulate=2",
                                 "data=2,pipeline=2"}));

// Each stage checks its own states without asking other stages.
TEST(Pipeline, FindsWhatIsNotFinite) {
  const auto model = untied("qwen2", "adamw,lr=1e-3");
  testing::expect_same_bits(testing::train_on("pipeline=2", model, {.find_nonfinite = true}, 3)[0],
                            testing::train_on("pipeline=2", model, {}, 3)[0]);
}

// Returns the exchanges of a stage with the next one: > for a send, < for a receive, + for others.
std::string exchanges_of(Session& session, const Bindings& sizes) {
  std::string order;
  for (const Step& step : session.plan("train_step", sizes).steps)
    if (step.op->info.collective)
      order += step.op->name() == "send" ? '>' : step.op->name() == "recv" ? '<' : '+';
  return order;
}

// With two stages and four micro-batches, the first stage runs two forward passes ahead and then alternates. All
// stages take part in the sum of the norm, and the loss comes from the last stage.
TEST(Pipeline, TakesTurnsForwardAndBackward) {
  const auto model = untied("qwen2", "adamw,lr=1e-3,clip=1.0,accumulate=4");
  const Bindings sizes = {{"batch", 2}, {"seq", 12}};
  Session first(model, {.mesh = Mesh::parse("pipeline=2"), .rank = 0});
  EXPECT_EQ(exchanges_of(first, sizes), "><><><><+<");
  Session last(model, {.mesh = Mesh::parse("pipeline=2"), .rank = 1});
  EXPECT_EQ(exchanges_of(last, sizes), "<><><><>+>");
  // The second forward pass does not wait for what the first stage receives.
  std::vector<size_t> at;
  const std::vector<Step>& steps = first.plan("train_step", sizes).steps;
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].op->info.collective) at.push_back(i);
  EXPECT_GT(2 * (at[1] - at[0]), at[0]);
}

// The first and the last stage share one table, so it is sent between them.
TEST(Pipeline, TrainsTiedEmbeddingsAsOneRankDoes) {
  const auto model = testing::training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,accumulate=2");
  expect_trains_as(train(model, {}), model, "pipeline=2");
}

// All stages decide together on loss scaling and skipped steps.
TEST(Pipeline, InLowPrecisionIsCloseAndTheSameOnAllRanks) {
  for (const char* precision : {"bf16", "f16"}) {
    const auto model =
        untied("qwen2", fmt::format("adamw,lr=1e-3,eps=1e-4,clip=1.0,accumulate=2,precision={}", precision));
    const Curve alone = train(model, {}, 10);
    const std::vector<Curve> ranks = testing::train_on("pipeline=2", model, {}, 10);
    for (size_t i = 0; i < alone.losses.size(); ++i)
      EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 2e-3 * alone.losses[i]) << precision;
    testing::expect_same_bits(ranks[1], ranks[0]);
  }
}

// Covers momentum that is not in an update op, averages of weights, schedules, and frozen weights.
TEST(Pipeline, TrainsWithWhatStepsHaveBesides) {
  for (const char* options : {"muon,lr=1e-3,accumulate=2", "adamw,lr=1e-3,eps=1e-4,ema=0.9,accumulate=2",
                              "sgd,lr=1e-2,momentum=0.9,schedule=warmup_cosine,warmup=5,total=20"}) {
    const auto model = untied("qwen3", options);
    const Curve alone = train(model, {}, 20);
    const std::vector<Curve> ranks = testing::train_on("pipeline=3", model, {}, 20);
    testing::expect_close(ranks[0], alone, 2e-5);
    testing::expect_same_bits(ranks[2], ranks[0]);
  }
}

// Under a memory budget values are recomputed, and nothing is sent twice.
TEST(Pipeline, ComputesAgainToSaveMemory) {
  const auto model = untied("qwen2", "adamw,lr=1e-3,eps=1e-4,accumulate=2");
  const std::vector<Curve> plenty = testing::train_on("pipeline=2", model, {}, 5),
                           little = testing::train_on("pipeline=2", model, {.memory_budget = 0}, 5);
  testing::expect_close(little[0], plenty[0], 1e-5);
}

// Runs the other entry points of a model whose states are on several ranks.
TEST(Pipeline, RunsOtherEntryPointsToo) {
  const auto model = untied("qwen2", "adamw,lr=1e-3");
  testing::Numbers batches(model->entry("loss"), 4);
  const NamedTensors batch = batches.batch(0);
  Session alone(model, {.threads = 1});
  const double expected = alone.run("loss", batch).at("loss").item<double>();
  const Mesh mesh = Mesh::parse("pipeline=3");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
    EXPECT_NEAR(session.run("loss", batch).at("loss").item<double>(), expected, 1e-6 * expected);
  });
}

}  // namespace
}  // namespace genesis
