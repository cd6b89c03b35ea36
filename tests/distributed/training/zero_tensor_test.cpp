// Tests slices along "tensor" that are sharded again along "data" (SessionOptions::zero), against ranks that keep
// whole slices and against one rank that has everything.
#include <gtest/gtest.h>

#include <filesystem>

#include "executor/training/batch_source.h"
#include "executor/training/checkpoint.h"
#include "executor/training/trainer.h"
#include "passes/distribution/optimizer_shards.h"
#include "passes/distribution/tensor_shards.h"
#include "schema/file/reader.h"
#include "schema/graph/state_cuts.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using testing::Curve;
using testing::expect_close;
using testing::expect_same_bits;
using testing::Numbers;
using testing::train;
using testing::train_on;
using testing::training;

constexpr const char* kMesh = "data=2,tensor=2";
constexpr const char* kAdamw = "adamw,lr=1e-3,eps=1e-4,clip=1.0";
constexpr int64_t kVocabulary = 64;  // divisible by two and four ranks, so the tied table is sharded

class ZeroTensor : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

// Vectors that are not sliced also have even sizes, so exactly half of everything is sharded.
TEST_P(ZeroTensor, TrainsAsOneRankDoes) {
  const auto& [name, options] = GetParam();
  const auto model = training(name, options, kVocabulary);
  const Curve alone = train(model, {});
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  const Curve whole = train_on(kMesh, model)[0];
  expect_close(whole, alone, 1e-5);
  EXPECT_LT(whole.memory.optimizer_bytes, alone.memory.optimizer_bytes);
  for (int stage = 1; stage <= 3; ++stage)
    for (const Curve& rank : train_on(kMesh, model, {.zero = stage})) {
      SCOPED_TRACE(stage);
      expect_same_bits(rank, whole);
      EXPECT_EQ(2 * rank.memory.optimizer_bytes, whole.memory.optimizer_bytes);
    }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZeroTensor,
                         ::testing::Values(std::tuple{"mlp", "adamw,lr=1e-3,eps=1e-4"},
                                           std::tuple{"qwen2", kAdamw}, std::tuple{"qwen3", kAdamw}));

// The memory of each rank shrinks with the first and the third stage.
TEST(ZeroTensor, HalvesOfSlicesHaveTheSameBits) {
  const auto model = training("qwen3", std::string(kAdamw) + ",precision=bf16", kVocabulary);
  const Curve whole = train_on(kMesh, model, {.weight_halves = true})[0];
  int64_t least = whole.memory.state_bytes;
  for (int stage = 1; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    const std::vector<Curve> ranks = train_on(kMesh, model, {.weight_halves = true, .zero = stage});
    for (const Curve& rank : ranks) expect_same_bits(rank, whole);
    EXPECT_EQ(2 * ranks[0].memory.optimizer_bytes, whole.memory.optimizer_bytes);
    EXPECT_EQ(ranks[0].memory.state_bytes < least, stage != 2);
    least = ranks[0].memory.state_bytes;
  }
}

// From stage 2 on, sums over micro-batches are rounded differently.
TEST(ZeroTensor, MicroBatchesAddUpParts) {
  const auto model = training("qwen2", std::string(kAdamw) + ",accumulate=2", kVocabulary);
  const Curve whole = train_on(kMesh, model, {}, 10)[0];
  for (int stage = 1; stage <= 3; ++stage) {
    const std::vector<Curve> ranks = train_on(kMesh, model, {.zero = stage}, 10);
    for (const Curve& rank : ranks)
      stage == 1 ? expect_same_bits(rank, whole) : expect_close(rank, whole, 1e-5);
    for (const Curve& rank : ranks) expect_same_bits(rank, ranks[0]);
  }
}

// The vocabulary is large, so only rows of its gradient are exchanged; tied and untied.
TEST(ZeroTensor, TablesOfRowsHaveTheSameBits) {
  for (const bool is_tied : {true, false}) {
    const auto model = training("qwen2", kAdamw, 1024, is_tied);
    const Curve whole = train_on(kMesh, model, {}, 10)[0];
    for (int stage = 1; stage <= 3; ++stage)
      for (const Curve& rank : train_on(kMesh, model, {.zero = stage}, 10)) {
        SCOPED_TRACE(stage);
        expect_same_bits(rank, whole);
      }
  }
}

// Other entry points gather the weights they read. The loss is the same on all ranks and in all stages.
TEST(ZeroTensor, OtherEntryPointsReadWholeWeights) {
  const auto model = training("qwen2", std::string(kAdamw) + ",precision=bf16", kVocabulary);
  testing::expect_same_loss_however_shared(model, kMesh, true);
}

struct Ranks {
  const char* mesh;
  int zero;
};

// Trains from step `first` on into a folder of checkpoints. Returns the states at the end.
NamedTensors train_into(const std::filesystem::path& folder, const std::shared_ptr<const Model>& model,
                        const Ranks& ranks, int64_t steps) {
  const Mesh mesh = Mesh::parse(ranks.mesh);
  NamedTensors states;
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    Session session(
        model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives, .zero = ranks.zero});
    const auto source = share_of(std::make_unique<Numbers>(model->entry("train_step")), mesh, rank);
    genesis::train(session, *source,
                   {.steps = steps, .checkpoint = folder, .is_first_rank = rank == 0, .run_id = "a run"});
    const NamedTensors mine = session.states();
    if (rank == 0) states = mine;
  });
  return states;
}

double largest_difference(const NamedTensors& a, const NamedTensors& b) {
  double largest = 0;
  for (const auto& [name, value] : a)
    if (is_float(value.type().dtype))
      largest = std::max(largest, testing::relative_difference(value, b.at(name)));
  return largest;
}

// Another mesh reads every bit of a checkpoint, and continues.
TEST(ZeroTensor, CheckpointsGoOnOnAnyMesh) {
  constexpr Ranks kMeshes[] = {{kMesh, 3}, {"data=1", 0}, {"tensor=2", 0}, {"data=4", 1}};
  const auto model = training("qwen2", kAdamw, kVocabulary);
  const testing::TemporaryFolder folder;
  const NamedTensors straight = train_into(folder / "straight", model, {kMesh, 3}, 6);
  for (const Ranks& from : kMeshes) {
    const std::filesystem::path saved = folder / ("of " + std::string(from.mesh) + std::to_string(from.zero));
    const NamedTensors states = train_into(saved, model, from, 3);
    const std::shared_ptr<const Model> loaded = load_checkpoint(*find_checkpoint(saved));
    for (const auto& [name, value] : states) {
      const Tensor stored = initial_value(loaded->state(loaded->find_state(name)));
      EXPECT_EQ(std::memcmp(stored.data(), value.data(), static_cast<size_t>(value.bytes())), 0) << name;
    }
    for (const Ranks& to : kMeshes) {
      if (from.mesh != std::string(kMesh) && to.mesh != std::string(kMesh)) continue;
      SCOPED_TRACE(fmt::format("{} zero {} -> {} zero {}", from.mesh, from.zero, to.mesh, to.zero));
      const NamedTensors again = train_into(folder / "again", loaded, to, 6);
      std::filesystem::remove_all(folder / "again");
      EXPECT_LT(largest_difference(again, straight), 1e-4);
    }
  }
}

// A slice is sharded if the ranks divide its number of elements, which is smaller than the whole tensor's.
TEST(ZeroTensor, SlicesAreWhatIsShared) {
  const auto model = training("qwen2", kAdamw, kVocabulary);
  const Mesh mesh = Mesh::parse("data=2,tensor=2");
  const StateStorage slices = passes::find_tensor_shards(*model, mesh, 3);
  const StateStorage shards = passes::find_shards(*model, mesh, 3, 3, {}, slices);
  StateStorage all = slices;
  all.groups.insert(all.groups.end(), shards.groups.begin(), shards.groups.end());
  number_parts(all, model->states().size());
  const auto cuts = cuts_of_states(*model, all);
  const auto of = [&](const char* name) { return cuts.at(model->find_state(name)); };
  const std::vector<Shard> down = of("model.layers.0.mlp.down_proj.weight");
  ASSERT_EQ(down.size(), 2U);  // 32 runs of 80: this rank has the last 40 of each, and of them the last half
  EXPECT_EQ(std::tuple(down[0].axis, down[0].runs, down[0].first, down[0].count),
            std::tuple("tensor", 32, 40, 40));
  EXPECT_EQ(std::tuple(down[1].axis, down[1].runs, down[1].first, down[1].count),
            std::tuple("data", 1, 640, 640));
  EXPECT_EQ(of("optimizer.model.norm.weight.m").size(), 1U);
}

}  // namespace
}  // namespace genesis
