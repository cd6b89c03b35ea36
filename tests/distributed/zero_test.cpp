// Ranks that share the optimizer's states (SessionOptions::zero) against ranks that each keep them all: the same bits.
#include <gtest/gtest.h>

#include <filesystem>

#include "executor/training/rank_share.h"
#include "schema/file/reader.h"
#include "tests/distributed/small_training.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_same_bits;
using testing::train_on;
using testing::training;

using testing::Numbers;

// Of a rank: parts of moments whose elements the ranks divide; averages of weights, which are whole.
int64_t bytes_of_moments(const Model& model, int64_t ranks) {
  int64_t bytes = 0;
  for (const State& state : model.states())
    if (state.role == StateRole::kOptimizer)
      bytes += state.type.bytes() /
               (state.name.starts_with("optimizer.") && state.type.numel() % ranks == 0 ? ranks : 1);
  return bytes;
}

class Zero : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(Zero, TrainsAsWholeStatesDo) {
  const auto& [name, options, mesh] = GetParam();
  const auto model = training(name, options);
  const std::vector<Curve> whole = train_on(mesh, model), shared = train_on(mesh, model, {.zero = 1});
  EXPECT_LT(shared[0].losses.back(), shared[0].losses.front());
  for (const Curve& rank : shared) {
    expect_same_bits(rank, whole[0]);
    EXPECT_EQ(rank.memory.optimizer_bytes, bytes_of_moments(*model, Mesh::parse(mesh).ranks()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Zero,
    ::testing::Values(std::tuple{"mlp", "sgd,lr=0.05,momentum=0.9", "data=2"},
                      std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "data=2"},
                      std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,accumulate=2", "data=4"},
                      std::tuple{"qwen3", "adamw,lr=1e-3,eps=1e-4,clip=1.0,ema=0.9", "data=4"},
                      std::tuple{"qwen3", "lion,lr=1e-5,clip_value=0.5", "data=2"}));

TEST(Zero, WhatRanksDoNotDivideStaysWhole) {
  const auto model = training("mlp", "adamw,lr=1e-3,clip=1.0");
  const std::vector<Curve> whole = train_on("data=8", model), shared = train_on("data=8", model, {.zero = 1});
  const int64_t bytes = bytes_of_moments(*model, 8);
  EXPECT_GT(bytes * 8, bytes_of_moments(*model, 1)) << "this model has no size that 8 ranks do not divide";
  for (const Curve& rank : shared) {
    expect_same_bits(rank, whole[0]);
    EXPECT_EQ(rank.memory.optimizer_bytes, bytes);
  }
}

TEST(Zero, MuonKeepsWholeMatrices) {
  const auto model = training("qwen2", "muon,lr=1e-3");
  const std::vector<Curve> whole = train_on("data=2", model, {}, 10),
                           shared = train_on("data=2", model, {.zero = 1}, 10);
  for (const Curve& rank : shared) expect_same_bits(rank, whole[0]);
  EXPECT_LT(shared[0].memory.optimizer_bytes, whole[0].memory.optimizer_bytes);
  EXPECT_GT(shared[0].memory.optimizer_bytes * 2, whole[0].memory.optimizer_bytes);
}

// In bf16, and in f16 with its loss scale.
TEST(Zero, InLowPrecisionHasTheSameBits) {
  for (const std::string precision : {"bf16", "f16", "f16,clip_value=0.1"}) {
    const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,precision=" + precision);
    const std::vector<Curve> whole = train_on("data=2", model, {}, 10),
                             shared = train_on("data=2", model, {.zero = 1}, 10);
    for (const Curve& rank : shared) expect_same_bits(rank, whole[0]);
    EXPECT_EQ(shared[1].memory.optimizer_bytes, bytes_of_moments(*model, 2)) << precision;
  }
}

TEST(Zero, WhatRanksSaveGoesOnOnOtherNumbersOfThem) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0");
  const std::string path = ::testing::TempDir() + "genesis_zero_saved.genesis";
  const Mesh mesh = Mesh::parse("data=4");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives, .zero = 1});
    const auto source = share_of(std::make_unique<Numbers>(model->entry("train_step")), mesh, rank);
    for (int step = 0; step < 5; ++step) session.run("train_step", source->batch(step));
    EXPECT_TRUE(session.shares_states());
    if (rank == 0)
      session.save(path);
    else
      session.take_part_in_states();
  });
  const std::shared_ptr<const Model> saved = load_model(path);
  std::filesystem::remove(path);
  Curve straight = train_on("data=4", model, {}, 10)[0];
  straight.losses.erase(straight.losses.begin(), straight.losses.begin() + 5);
  for (const Curve& rank : train_on("data=4", saved, {.zero = 1}, 5, 5)) expect_same_bits(rank, straight);
  for (const char* fewer : {"data=2", "data=1"}) {
    const Curve shared = train_on(fewer, saved, {.zero = 1}, 5, 5)[0];
    expect_same_bits(shared, train_on(fewer, saved, {}, 5, 5)[0]);
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(shared.losses[i], straight.losses[i], 1e-5 * straight.losses[i]);
  }
}

TEST(Zero, WithoutTheOtherRanksThereIsNoWholeState) {
  const auto model = training("mlp", "adamw,lr=1e-3");
  Session session(model, {.mesh = Mesh::parse("data=2"), .zero = 1});
  const NamedTensors before = session.states();  // nobody has written one yet
  for (const auto& [name, value] : before)
    if (name.ends_with(".m")) session.set_state(name, value);
  EXPECT_NE(testing::error_of([&] { session.states(); }).find("every rank along 'data' keeps a part"),
            std::string::npos);
}

TEST(Zero, StagesThatDoNotExistAreErrors) {
  const auto model = training("mlp", "adamw,lr=1e-3");
  EXPECT_NE(testing::error_of([&] { Session(model, {.zero = 2}); }).find("expected 0"), std::string::npos);
  EXPECT_NE(
      testing::error_of([&] { Session(model, {.optimise = false, .zero = 1}); }).find("needs the passes"),
      std::string::npos);
}

}  // namespace
}  // namespace genesis
