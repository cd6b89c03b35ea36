// Tests training on several ranks, each with a shard of the batch, against one rank with the whole batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "executor/training/batch_source.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_trains_as;
using testing::FewTargets;
using testing::Numbers;
using testing::train;
using testing::train_on;
using testing::training;

class DataParallel : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(DataParallel, TrainsAsOneRankDoes) {
  const auto& [name, options, mesh] = GetParam();
  const auto model = training(name, options);
  expect_trains_as(train(model, {}), model, mesh);
}

INSTANTIATE_TEST_SUITE_P(Zoo, DataParallel,
                         ::testing::Values(std::tuple{"mlp", "sgd,lr=0.05", "data=2"},
                                           std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "data=2"},
                                           std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,accumulate=2",
                                                      "data=4"},
                                           std::tuple{"qwen3", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "data=4"},
                                           std::tuple{"qwen3", "lion,lr=1e-5,clip_value=0.5", "data=2"}));

// Every target of the batch counts equally. Rows differ in how many targets count, and a rank's shard may have none.
class UnevenTargets : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(UnevenTargets, CountAlikeOnRanksAndInMicroBatches) {
  const auto& [name, options, mesh] = GetParam();
  const std::string text = options;
  constexpr int64_t kClasses = 64;  // divisible among the ranks along tensor
  const Curve alone = train<FewTargets>(training(name, text, kClasses), {}, 20);
  for (const double loss : alone.losses) EXPECT_TRUE(std::isfinite(loss));
  expect_close(train<FewTargets>(training(name, text + ",accumulate=2", kClasses), {}, 20), alone, 1e-5);
  for (const char* more : {"", ",accumulate=2"}) {
    const std::vector<Curve> ranks =
        train_on<FewTargets>(mesh, training(name, text + more, kClasses), {}, 20);
    expect_close(ranks[0], alone, 1e-5);
    for (const Curve& rank : ranks) expect_same_bits(rank, ranks[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, UnevenTargets,
                         ::testing::Values(std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "data=2"},
                                           std::tuple{"qwen2", "sgd,lr=0.05", "data=4"},
                                           std::tuple{"gpt2", "adamw,lr=1e-3,eps=1e-4", "data=2,tensor=2"}));

// With a vocabulary that is large compared to the batch, only the gradient's rows for tokens of the batch are
// exchanged.
TEST(DataParallel, ExchangesRowsOfLargeTables) {
  for (const char* name : {"qwen2", "gpt2"}) {
    const auto model = training(name, "adamw,lr=1e-3,eps=1e-4,clip=1.0", 4096);
    Session session(model, {.mesh = Mesh::parse("data=2")});
    const Plan& plan = session.plan("train_step", {{"batch", 8}, {"seq", 12}});
    const auto gathers = std::count_if(plan.steps.begin(), plan.steps.end(),
                                       [](const Step& step) { return step.op->name() == "all_gather"; });
    EXPECT_EQ(gathers, 1) << name;
    const std::vector<Curve> ranks = train_on("data=2", model, {}, 20);
    expect_close(ranks[0], train(model, {}, 20), 1e-5);
    expect_same_bits(ranks[1], ranks[0]);
  }
}

TEST(DataParallel, WithoutPassesIsTheSame) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0");
  expect_close(train_on("data=2", model, {.optimize = false}, 5)[0], train(model, {}, 5), 1e-5);
}

TEST(DataParallel, InLowPrecisionIsCloseAndTheSameOnAllRanks) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,precision=bf16");
  const Curve alone = train(model, {}, 10);
  for (const bool split : {false, true}) {
    const std::vector<Curve> ranks = train_on("data=2", model, {.weight_halves = split}, 10);
    expect_close(ranks[0], alone, 2e-2);
    expect_same_bits(ranks[1], ranks[0]);
  }
}

TEST(DataParallel, AMeshOfOneRankIsNone) {
  const auto model = training("qwen2", "adamw,lr=1e-3");
  expect_same_bits(train(model, {}, 3), train(model, {.mesh = Mesh::parse("data=1,tensor=1")}, 3));
  Session alone(model), meshed(model, {.mesh = Mesh::parse("data=2")});
  const auto count = [](const Plan& plan) {
    return std::count_if(plan.steps.begin(), plan.steps.end(),
                         [](const Step& step) { return step.op->info.collective; });
  };
  const Bindings sizes = {{"batch", 4}, {"seq", 12}};
  EXPECT_EQ(count(alone.plan("train_step", sizes)), 0);
  // The number of targets that count, the gradients in a bucket, their norm, the loss.
  EXPECT_EQ(count(meshed.plan("train_step", sizes)), 4);
}

TEST(DataParallel, ABatchThatRanksDoNotDivideIsAnError) {
  const auto model = training("mlp", "sgd,lr=0.1");
  const auto refusal = [&](int64_t batch) {
    return testing::error_of([&] {
      share_of(std::make_unique<Numbers>(model->entry("train_step"), batch), Mesh::parse("data=4"), 1)
          ->batch(0);
    });
  };
  EXPECT_NE(refusal(9).find("take a batch of 8 or 12"), std::string::npos) << refusal(9);
  EXPECT_NE(refusal(3).find("take a batch of 4"), std::string::npos) << refusal(3);
}

TEST(DataParallel, ARankThatFailsEndsTheOthers) {
  const auto model = training("mlp", "sgd,lr=0.1");
  std::mutex mutex;
  std::vector<std::string> errors;
  const Mesh mesh = Mesh::parse("data=2");
  const auto body = [&](int64_t rank, const std::shared_ptr<Collectives>& collectives) {
    try {
      if (rank == 1) fail("no more");
      train(model, {.mesh = mesh, .rank = rank, .collectives = collectives}, 5);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      errors.push_back(error.message());
      throw;
    }
  };
  EXPECT_THROW(testing::run_ranks(mesh, body), Error);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(std::count_if(errors.begin(), errors.end(),
                          [](const std::string& e) { return e.find("rank 1 failed") != std::string::npos; }),
            1);
}

}  // namespace
}  // namespace genesis
