// Tests checkpoints of which each rank writes a shard: they have the values that one rank would write, and load on any
// number of ranks.
#include "executor/training/checkpoint_shards.h"
#include "executor/training/checkpoint_names.h"

#include <gtest/gtest.h>

#include <cstring>

#include "executor/training/batch_source.h"
#include "executor/training/checkpoint.h"
#include "executor/training/checkpoint_lock.h"
#include "executor/training/trainer.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::read_bytes;
using testing::TemporaryFolder;

constexpr const char* kAdamw = "adamw,lr=1e-3,eps=1e-4,clip=1.0";

struct Run {
  std::string mesh = "data=2";
  int zero = 0;
  int64_t steps = 6, every = 0;
  int keep = 2;
};

// Trains, and returns the states of rank 0's session at the end.
NamedTensors train_into(const fs::path& folder, const std::shared_ptr<const Model>& model, const Run& run) {
  const Mesh mesh = Mesh::parse(run.mesh);
  NamedTensors states;
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    SessionOptions options{.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives};
    options.zero = run.zero;
    Session session(model, options);
    const auto source = share_of(std::make_unique<testing::Numbers>(model->entry("train_step")), mesh, rank);
    train(session, *source,
          {.steps = run.steps,
           .checkpoint = folder,
           .is_first_rank = rank == 0,
           .run_id = "a run of " + run.mesh,
           .checkpoint_every = run.every,
           .keep_checkpoints = run.keep});
    const NamedTensors mine = session.states();
    if (rank == 0) states = mine;
  });
  return states;
}

void expect_holds(const Model& model, const NamedTensors& states) {
  for (const auto& [name, value] : states) {
    const int32_t index = model.find_state(name);
    ASSERT_GE(index, 0) << name;
    const Tensor stored = initial_value(model.state(index));
    ASSERT_TRUE(stored.type() == value.type()) << name;
    EXPECT_EQ(std::memcmp(stored.data(), value.data(), static_cast<size_t>(value.bytes())), 0) << name;
  }
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

class CheckpointShards : public ::testing::TestWithParam<std::tuple<const char*, const char*, int>> {
 protected:
  TemporaryFolder folder_;
};

TEST_P(CheckpointShards, HoldWhatTheRanksHold) {
  const auto& [name, mesh, zero] = GetParam();
  const auto model = testing::training(name, kAdamw);
  const NamedTensors states = train_into(folder_ / "run", model, {.mesh = mesh, .zero = zero, .every = 2});
  const auto found = find_checkpoint(folder_ / "run");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 6);
  const auto loaded = load_checkpoint(*found);
  EXPECT_EQ(steps_done(*loaded), 6);
  expect_holds(*loaded, states);
  EXPECT_EQ(names_in(folder_ / "run"),
            (std::set<std::string>{"step-000000004.genesis", "step-000000004.parts", "step-000000006.genesis",
                                   "step-000000006.parts"}));
}

// The shards of all ranks make one file, equal to the file of a rank that gathers them, with nothing else beside it.
TEST_P(CheckpointShards, MakeOneFile) {
  const auto& [name, mesh_text, zero] = GetParam();
  const auto trained = std::make_shared<Model>(*testing::training(name, kAdamw));
  trained->metadata["checkpoint.step"] = "6";  // a file that is no checkpoint does not have this
  const std::shared_ptr<const Model> model = trained;
  const Mesh mesh = Mesh::parse(mesh_text);
  const fs::path together = folder_ / "together.genesis", gathered = folder_ / "gathered.genesis";
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    SessionOptions options{.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives};
    options.zero = zero;
    Session session(model, options);
    const auto source = share_of(std::make_unique<testing::Numbers>(model->entry("train_step")), mesh, rank);
    for (int step = 0; step < 3; ++step) session.run("train_step", source->batch(step));
    save_together(session, together, "a run");
    if (rank == 0)
      session.save(gathered);
    else
      session.take_part_in_gather();
  });
  EXPECT_EQ(names_in(folder_ / ""), (std::set<std::string>{"together.genesis", "gathered.genesis"}));
  EXPECT_EQ(read_bytes(together), read_bytes(gathered));
}

INSTANTIATE_TEST_SUITE_P(Zoo, CheckpointShards,
                         ::testing::Values(std::tuple{"mlp", "data=2", 0}, std::tuple{"mlp", "data=4", 0},
                                           std::tuple{"qwen2", "data=2", 1}, std::tuple{"qwen3", "data=4", 1},
                                           std::tuple{"qwen2", "data=8", 1},
                                           std::tuple{"qwen2", "data=2,tensor=2", 1},
                                           std::tuple{"qwen2", "pipeline=2", 0},
                                           std::tuple{"mlp", "data=2,pipeline=2", 0}));

class CheckpointSet : public ::testing::Test {
 protected:
  CheckpointSet() : model_(testing::training("qwen2", kAdamw)) {}
  fs::path run() const { return folder_ / "run"; }

  TemporaryFolder folder_;
  const std::shared_ptr<const Model> model_;
};

// Trains on four ranks without interruption, and through a checkpoint on other numbers of ranks.
TEST_F(CheckpointSet, GoesOnOnAnyMesh) {
  train_into(run(), model_, {.mesh = "data=4", .zero = 1, .steps = 3});
  const std::shared_ptr<const Model> saved = load_checkpoint(*find_checkpoint(run()));
  const NamedTensors straight = train_into(folder_ / "straight", model_, {.mesh = "data=4", .zero = 1});
  const NamedTensors again = train_into(folder_ / "again", saved, {.mesh = "data=4", .zero = 1});
  for (const auto& [name, value] : straight)
    EXPECT_EQ(std::memcmp(again.at(name).data(), value.data(), static_cast<size_t>(value.bytes())), 0)
        << name;
  const NamedTensors two = train_into(folder_ / "two", saved, {.mesh = "data=2", .zero = 1}),
                     one = train_into(folder_ / "one", saved, {.mesh = "data=1", .zero = 0});
  expect_holds(*load_checkpoint(*find_checkpoint(folder_ / "two")), two);
  for (const auto& [name, value] : one) {
    const std::vector<double> a = value.to_doubles(), b = two.at(name).to_doubles();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << name;
  }
}

// A checkpoint of pipeline stages continues on one rank that has all layers, and vice versa.
TEST_F(CheckpointSet, GoesOnWithAndWithoutStages) {
  train_into(run(), model_, {.mesh = "pipeline=2", .steps = 3});
  const std::shared_ptr<const Model> saved = load_checkpoint(*find_checkpoint(run()));
  const NamedTensors one = train_into(folder_ / "one", saved, {.mesh = "data=1"}),
                     four = train_into(folder_ / "four", saved, {.mesh = "pipeline=4"});
  for (const auto& [name, value] : one) {
    const std::vector<double> a = value.to_doubles(), b = four.at(name).to_doubles();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << name;
  }
}

int64_t bytes_of_states(const Model& model) {
  int64_t bytes = 0;
  for (const State& state : model.states()) bytes += state.type.bytes();
  return bytes;
}

// Each rank writes its share of the bytes, whether ranks keep all states or shards.
TEST_F(CheckpointSet, DividesTheBytes) {
  for (const int zero : {0, 1}) {
    train_into(run(), model_, {.mesh = "data=4", .zero = zero, .steps = 1});
    int64_t least = INT64_MAX, most = 0;
    for (const auto& shard : fs::directory_iterator(shards_folder(checkpoint_path(run(), 1)))) {
      const int64_t bytes = bytes_of_states(*load_model(shard.path()));
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
    EXPECT_LT(static_cast<double>(most), 1.1 * static_cast<double>(least));
    fs::remove_all(run());
  }
}

TEST_F(CheckpointSet, WithAPartThatIsMissingOrDamagedIsPassedOver) {
  train_into(run(), model_, {.mesh = "data=2", .zero = 1, .steps = 6, .every = 3});
  const fs::path shard = shards_folder(checkpoint_path(run(), 6)) / "rank-1.genesis";
  const std::string whole = testing::read_bytes(shard);
  std::string damaged = whole;
  damaged[damaged.size() - 40] ^= 4;
  testing::write_bytes(shard, damaged);
  EXPECT_EQ(find_checkpoint(run())->step, 3) << "one bit";
  testing::write_bytes(shard, whole.substr(0, whole.size() / 2));
  EXPECT_EQ(find_checkpoint(run())->step, 3) << "cut short";
  fs::remove(shard);
  EXPECT_EQ(find_checkpoint(run())->step, 3) << "missing";
  EXPECT_NE(error_of([&] { load_model(checkpoint_path(run(), 6)); }).find("rank-1.genesis"),
            std::string::npos);
  testing::write_bytes(shard, whole);
  EXPECT_EQ(find_checkpoint(run())->step, 6) << "another file with the same bytes";
}

TEST_F(CheckpointSet, MovesAsAFolder) {
  const NamedTensors states = train_into(run(), model_, {.mesh = "data=2", .zero = 1});
  fs::create_directories(folder_ / "elsewhere");
  fs::rename(run(), folder_ / "elsewhere" / "moved");
  const auto loaded = load_checkpoint(*find_checkpoint(folder_ / "elsewhere" / "moved"));
  expect_holds(*loaded, states);
  save_model(*loaded, folder_ / "alone.genesis");
  fs::remove_all(folder_ / "elsewhere");
  expect_holds(*load_model(folder_ / "alone.genesis"), states);
}

TEST_F(CheckpointSet, PartsWithoutTheirCheckpointAreRemoved) {
  train_into(run(), model_, {.mesh = "data=2", .steps = 4, .every = 2});
  fs::remove(checkpoint_path(run(), 4));
  fs::create_directory(run() / "mine.parts");
  const CheckpointLock lock(run());
  EXPECT_EQ(names_in(run()),
            (std::set<std::string>{".lock", "mine.parts", "step-000000002.genesis", "step-000000002.parts"}));
}

// A file of another run in the place of a shard is not taken for this run's.
TEST_F(CheckpointSet, WaitsForThePartsOfItsOwnRun) {
  const fs::path checkpoint = checkpoint_path(run(), 1);
  Model states;
  states.add_state(
      {"w", {DType::f32, {2}}, StateRole::kParameter, true, Tensor::of<float>({2}, {1.0f, 2.0f})});
  Model model(states);
  const StateShards shards{0, 2, {{{1}}}};
  write_shard(states, checkpoint, 0, "this run");
  write_shard(states, checkpoint, 1, "an earlier run");
  const auto join = [&] { join_shards(model, shards, checkpoint, {.run = "this run", .seconds = 0.2}); };
  EXPECT_NE(error_of(join).find("rank 1 has not written its shard"), std::string::npos) << error_of(join);
  const auto give_up = [&] {
    join_shards(model, shards, checkpoint, {.run = "this run", .given_up = [] { return "rank 1 is lost"; }});
  };
  EXPECT_NE(error_of(give_up).find("rank 1 is lost"), std::string::npos);
  EXPECT_FALSE(fs::exists(checkpoint));
  write_shard(states, checkpoint, 1, "this run");
  join();
  EXPECT_EQ(load_model(checkpoint, {.verify = Verify::kFull})->state(0).initial.to_doubles()[1], 2);
}

}  // namespace
}  // namespace genesis
