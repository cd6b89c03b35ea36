// Tests ranks that shard the optimizer's states (SessionOptions::zero) against ranks that each keep all of them: the
// same bits.
#include <gtest/gtest.h>

#include <filesystem>

#include "executor/training/batch_source.h"
#include "models/zoo.h"
#include "passes/lora/lora.h"
#include "passes/training/train_step.h"
#include "schema/file/reader.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"
#include "tests/error_of.h"
#include "tests/models/small_families.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_same_bits;
using testing::train_on;
using testing::training;

using testing::Numbers;

// Returns the bytes of a rank: shards of moments whose size the ranks divide, and whole averages of weights.
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
  const Curve whole = train_on(mesh, model)[0];
  EXPECT_LT(whole.losses.back(), whole.losses.front());
  for (int stage = 1; stage <= 3; ++stage)
    for (const Curve& rank : train_on(mesh, model, {.zero = stage})) {
      SCOPED_TRACE(stage);
      expect_same_bits(rank, whole);
      EXPECT_EQ(rank.memory.optimizer_bytes, bytes_of_moments(*model, Mesh::parse(mesh).ranks()));
    }
}

INSTANTIATE_TEST_SUITE_P(Zoo, Zero,
                         ::testing::Values(std::tuple{"mlp", "sgd,lr=0.05,momentum=0.9", "data=2"},
                                           std::tuple{"qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0", "data=2"},
                                           std::tuple{"qwen3", "adamw,lr=1e-3,eps=1e-4,clip=1.0,ema=0.9",
                                                      "data=4"},
                                           std::tuple{"qwen3", "lion,lr=1e-5,clip_value=0.5", "data=2"}));

// From stage 2 on the gradient of each micro-batch is exchanged separately: the sum is rounded differently, and no
// whole gradient is kept for the next micro-batch.
TEST(Zero, MicroBatchesAddUpParts) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,accumulate=2");
  const std::vector<Curve> whole = train_on("data=4", model);
  for (const Curve& rank : train_on("data=4", model, {.zero = 1})) expect_same_bits(rank, whole[0]);
  for (const int stage : {2, 3}) {
    const std::vector<Curve> shared = train_on("data=4", model, {.zero = stage});
    for (size_t i = 0; i < shared[0].losses.size(); ++i)
      EXPECT_NEAR(shared[0].losses[i], whole[0].losses[i], 1e-5 * whole[0].losses[i]);
    for (const Curve& rank : shared) expect_same_bits(rank, shared[0]);
    expect_same_bits(train_on("data=4", model, {.zero = stage})[3], shared[0]);
  }
}

// The model is larger than a bucket.
TEST(Zero, GradientsOfMicroBatchesTakeLess) {
  const std::shared_ptr<Model> model = models::make_model("qwen2",
                                                          {{"vocab_size", "61"},
                                                           {"hidden_size", "512"},
                                                           {"intermediate_size", "4096"},
                                                           {"num_hidden_layers", "8"},
                                                           {"num_attention_heads", "4"},
                                                           {"num_key_value_heads", "2"},
                                                           {"max_position_embeddings", "32"}},
                                                          5);
  passes::add_training(*model, passes::parse_train_options("adamw,accumulate=2"));
  std::vector<int64_t> arenas;
  for (int stage = 0; stage <= 2; ++stage) {
    Session session(model, {.mesh = Mesh::parse("data=4"), .zero = stage});
    arenas.push_back(session.plan("train_step", {{"batch", 1}, {"seq", 2}}).arena_bytes);
  }
  EXPECT_LT(arenas[2], arenas[1] * 4 / 5);
}

// In every stage only rows of a large vocabulary's gradient are exchanged, also if weights are halves.
TEST(Zero, ExchangesRowsOfLargeTables) {
  for (const auto& [name, precision] :
       {std::pair{"qwen2", "f32"}, std::pair{"gpt2", "f32"}, std::pair{"qwen2", "bf16"}}) {
    const std::string more = std::string(precision) == "bf16" ? ",precision=bf16" : "";
    const auto model = training(name, "adamw,lr=1e-3,eps=1e-4,clip=1.0" + more, 4096);
    const Curve whole = train_on("data=2", model, {.weight_halves = true}, 10)[0];
    for (int stage = 1; stage <= 3; ++stage)
      for (const Curve& rank : train_on("data=2", model, {.weight_halves = true, .zero = stage}, 10)) {
        SCOPED_TRACE(name + more + ", stage " + std::to_string(stage));
        expect_same_bits(rank, whole);
      }
  }
}

// Checks that ranks with slices of the weights have slices of the moments, too, and the losses of one rank.
void expect_slices_train(const std::shared_ptr<const Model>& model, const char* mesh, int steps) {
  SCOPED_TRACE(mesh);
  const Curve alone = testing::train(model, {}, steps), sliced = train_on(mesh, model, {}, steps)[0];
  EXPECT_LT(sliced.memory.optimizer_bytes, alone.memory.optimizer_bytes * 3 / 4);
  for (size_t i = 0; i < sliced.losses.size(); ++i)
    EXPECT_NEAR(sliced.losses[i], alone.losses[i], 0.01 * alone.losses[i]) << "step " << i;
}

// Codes and the scales of their blocks are sharded alike, along every axis.
TEST(Zero, SharesMomentsOf8Bits) {
  const std::shared_ptr<Model> model = models::make_model("qwen2",
                                                          {{"vocab_size", "61"},
                                                           {"hidden_size", "512"},
                                                           {"intermediate_size", "512"},
                                                           {"num_hidden_layers", "1"},
                                                           {"num_attention_heads", "4"},
                                                           {"num_key_value_heads", "2"},
                                                           {"max_position_embeddings", "32"}},
                                                          5);
  passes::add_training(
      *model, passes::parse_train_options("adamw,lr=1e-3,eps=1e-4,clip=1.0,moments=8bit,precision=bf16"));
  constexpr int kFew = 4;
  const Curve whole = train_on("data=2", model, {.weight_halves = true}, kFew)[0];
  for (int stage = 1; stage <= 3; ++stage)
    for (const Curve& rank : train_on("data=2", model, {.weight_halves = true, .zero = stage}, kFew)) {
      SCOPED_TRACE(stage);
      expect_same_bits(rank, whole);
      EXPECT_EQ(rank.memory.optimizer_bytes, bytes_of_moments(*model, 2));
    }
  expect_slices_train(model, "tensor=2", kFew);
  models::Settings settings = testing::small_settings("qwen3_moe");
  settings["hidden_size"] = settings["moe_intermediate_size"] = "256";
  const std::shared_ptr<Model> experts = models::make_model("qwen3_moe", settings, 5);
  passes::add_training(*experts, passes::parse_train_options("adamw,lr=1e-3,eps=1e-4,moments=8bit"));
  expect_slices_train(experts, "expert=2", kFew);
}

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
  const std::vector<Curve> whole = train_on("data=2", model, {}, 10);
  for (const int stage : {1, 3}) {
    const std::vector<Curve> shared = train_on("data=2", model, {.zero = stage}, 10);
    for (const Curve& rank : shared) expect_same_bits(rank, whole[0]);
    EXPECT_LT(shared[0].memory.optimizer_bytes, whole[0].memory.optimizer_bytes);
    EXPECT_GT(shared[0].memory.optimizer_bytes * 2, whole[0].memory.optimizer_bytes);
  }
}

// Frozen weights are sharded in stage 3. Weights trained by an update without moments are not.
TEST(Zero, FrozenWeightsAndPlainUpdatesTrainAsWell) {
  const std::shared_ptr<Model> adapted = testing::small_model("qwen2");
  passes::add_lora(*adapted, {.rank = 4});
  passes::add_training(*adapted, passes::parse_train_options("adamw,lr=1e-3,eps=1e-4,precision=bf16"));
  for (const std::shared_ptr<const Model>& model :
       {std::shared_ptr<const Model>(adapted), training("qwen2", "sgd,lr=0.05")}) {
    const std::vector<Curve> whole = train_on("data=2", model, {.weight_halves = true}, 10);
    EXPECT_LT(whole[0].losses.back(), whole[0].losses.front());
    for (const Curve& rank : train_on("data=2", model, {.weight_halves = true, .zero = 3}, 10))
      expect_same_bits(rank, whole[0]);
  }
}

// Covers bf16, and f16 with its loss scale.
TEST(Zero, InLowPrecisionHasTheSameBits) {
  for (const std::string precision : {"bf16", "f16", "f16,clip_value=0.1"}) {
    const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,precision=" + precision);
    const std::vector<Curve> whole = train_on("data=2", model, {}, 10);
    for (int stage = 1; stage <= 3; ++stage) {
      const std::vector<Curve> shared = train_on("data=2", model, {.zero = stage}, 10);
      for (const Curve& rank : shared) expect_same_bits(rank, whole[0]);
      EXPECT_EQ(shared[1].memory.optimizer_bytes, bytes_of_moments(*model, 2)) << precision;
    }
  }
}

// Averages read the new weights, so with them there are no halves.
TEST(Zero, HalvesBesideShardsHaveTheSameBits) {
  for (const std::string more : {"clip=1.0", "accumulate=1", "clip=1.0,ema=0.9"}) {
    const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,precision=bf16," + more);
    const std::vector<Curve> whole = train_on("data=2", model, {.weight_halves = true});
    int64_t least = whole[0].memory.state_bytes;
    for (int stage = 1; stage <= 3; ++stage) {
      SCOPED_TRACE(more + ", stage " + std::to_string(stage));
      const std::vector<Curve> shared = train_on("data=2", model, {.weight_halves = true, .zero = stage});
      for (const Curve& rank : shared) expect_same_bits(rank, whole[0]);
      const int64_t bytes = shared[1].memory.state_bytes;
      EXPECT_EQ(bytes < least, stage != 2);
      least = bytes;
    }
    int64_t halved = 0;  // bytes of matrices and vectors on each of two ranks
    for (const State& state : model->states())
      if (state.role == StateRole::kParameter)
        halved += state.type.bytes() / (state.type.shape.rank() > 1 ? 2 : 1);
    EXPECT_LE(least, halved + bytes_of_moments(*model, 2) + 64);
  }
}

TEST(Zero, HalvesOfFourRanksHaveTheSameBits) {
  const auto model = training("qwen3", "adamw,lr=1e-3,eps=1e-4,clip=1.0,precision=bf16");
  const std::vector<Curve> whole = train_on("data=4", model, {.weight_halves = true}, 10);
  for (int stage = 1; stage <= 3; ++stage)
    for (const Curve& rank : train_on("data=4", model, {.weight_halves = true, .zero = stage}, 10))
      expect_same_bits(rank, whole[0]);
}

// Without the pass that gathers weights they stay whole, as in stage 2.
TEST(Zero, WithoutGathersWeightsStayWhole) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0");
  const SessionOptions options{.disabled = {"gather_weights"}, .zero = 3};
  expect_same_bits(train_on("data=2", model, options, 5)[0], train_on("data=2", model, {}, 5)[0]);
}

TEST(Zero, OtherEntryPointsReadWholeWeights) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0,precision=bf16");
  for (const bool split : {false, true}) testing::expect_same_loss_however_shared(model, "data=2", split);
}

// Returns, by step of a plan for stage 3, the layer whose weights a gather brings; -1 for other steps.
std::vector<int> gathered_layers(const Plan& plan) {
  std::vector<int> layers;
  for (const Step& step : plan.steps) {
    const size_t at = step.authored.find("layers.");
    layers.push_back(step.op->name() == "all_gather" && at != std::string::npos
                         ? std::stoi(step.authored.substr(at + 7))
                         : -1);
  }
  return layers;
}

TEST(Zero, ALayersWeightsComeWhileTheOneAheadComputes) {
  const auto model = training("qwen2", "adamw,lr=1e-3,clip=1.0,precision=bf16");
  Session session(model, {.weight_halves = true, .mesh = Mesh::parse("data=2"), .zero = 3});
  const Plan plan = session.plan("train_step", {{"batch", 4}, {"seq", 12}});
  std::vector<int> order;  // gathered layers, with a 9 for computation with weights in between
  const std::vector<int> layers = gathered_layers(plan);
  for (size_t i = 0; i < layers.size() && plan.steps[i].op->name() != "adam_update"; ++i) {
    if (layers[i] >= 0) order.push_back(layers[i]);
    const std::string_view op = plan.steps[i].op->name();
    if ((op == "linear" || op == "matmul" || op == "embedding") && (order.empty() || order.back() != 9))
      order.push_back(9);
  }
  // The embedding's gather belongs to no layer. Layer 0 is gathered at the same time, then 1 during 0; and in reverse
  // at the end.
  EXPECT_EQ(order, (std::vector<int>{0, 9, 1, 9, 1, 9, 0, 9}));
}

class ZeroStage : public ::testing::TestWithParam<int> {};

TEST_P(ZeroStage, WhatRanksSaveGoesOnOnOtherNumbersOfThem) {
  const auto model = training("qwen2", "adamw,lr=1e-3,eps=1e-4,clip=1.0");
  const std::string path =
      ::testing::TempDir() + "genesis_zero_saved" + std::to_string(GetParam()) + ".genesis";
  const Mesh mesh = Mesh::parse("data=4");
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(
        model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives, .zero = GetParam()});
    const auto source = share_of(std::make_unique<Numbers>(model->entry("train_step")), mesh, rank);
    for (int step = 0; step < 5; ++step) session.run("train_step", source->batch(step));
    EXPECT_TRUE(session.shares_states());
    if (rank == 0)
      session.save(path);
    else
      session.take_part_in_gather();
  });
  const std::shared_ptr<const Model> saved = load_model(path);
  std::filesystem::remove(path);
  Curve straight = train_on("data=4", model, {}, 10)[0];
  straight.losses.erase(straight.losses.begin(), straight.losses.begin() + 5);
  for (const Curve& rank : train_on("data=4", saved, {.zero = GetParam()}, 5, 5))
    expect_same_bits(rank, straight);
  for (const char* fewer : {"data=2", "data=1"}) {
    const Curve shared = train_on(fewer, saved, {.zero = GetParam()}, 5, 5)[0];
    expect_same_bits(shared, train_on(fewer, saved, {}, 5, 5)[0]);
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(shared.losses[i], straight.losses[i], 1e-5 * straight.losses[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Zero, ZeroStage, ::testing::Values(1, 2, 3));

// q, k and v are one product, and gate and up are another: their weights are gathered side by side without a copy.
TEST(Zero, WeightsOfOneProductAreGatheredIntoPlace) {
  const auto model = training("qwen2", "adamw,lr=1e-3,clip=1.0,precision=bf16");
  for (const int stage : {1, 3}) {
    Session session(model, {.weight_halves = true, .mesh = Mesh::parse("data=2"), .zero = stage});
    const Plan plan = session.plan("train_step", {{"batch", 4}, {"seq", 12}});
    for (const Step& step : plan.steps) {
      if (step.op->name() != "concat") continue;  // joins flat shards that an update reads
      EXPECT_EQ(step.output_types[0].shape.rank(), 1) << stage << step.authored;
      EXPECT_NE(step.outputs[0].space, Space::kState) << stage << step.authored;
    }
    EXPECT_TRUE(plan.state_copies.empty());
  }
}

TEST(Zero, WithoutTheOtherRanksThereIsNoWholeState) {
  const auto model = training("mlp", "adamw,lr=1e-3");
  Session session(model, {.mesh = Mesh::parse("data=2"), .zero = 1});
  const NamedTensors before = session.states();  // no state has been written yet
  for (const auto& [name, value] : before)
    if (name.ends_with(".m")) session.set_state(name, value);
  EXPECT_NE(testing::error_of([&] { session.states(); }).find("every rank along 'data' keeps a shard"),
            std::string::npos);
}

TEST(Zero, StagesThatDoNotExistAreErrors) {
  const auto model = training("mlp", "adamw,lr=1e-3");
  EXPECT_NE(testing::error_of([&] { Session(model, {.zero = 4}); }).find("expected 0"), std::string::npos);
  EXPECT_NE(
      testing::error_of([&] { Session(model, {.optimize = false, .zero = 1}); }).find("needs the passes"),
      std::string::npos);
}

}  // namespace
}  // namespace genesis
