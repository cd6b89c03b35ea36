// Tests checkpoints written in parallel with steps: they have the values of their step, equal the files that training
// would wait for, and report errors.
#include "executor/training/checkpoint_writer.h"

#include "executor/training/checkpoint.h"
#include "executor/training/trainer.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class Ones final : public BatchSource {
 public:
  NamedTensors batch(int64_t) override { return {{"x", Tensor::scalar<float>(1)}}; }
  int64_t items_per_batch() const override { return 1; }
};

// Returns a model with 8 MiB that every step changes, a state that no step writes, and a cache. Two states have no
// initial value.
std::shared_ptr<Model> parsed_model() {
  auto model = std::make_shared<Model>();
  const auto add = [&](const char* name, int64_t size, StateRole role, Tensor initial) {
    return model->add_state(
        {name, {DType::f32, {size}}, role, role == StateRole::kParameter, std::move(initial)});
  };
  const int32_t w = add("w", 2 << 20, StateRole::kParameter, {}), m = add("m", 7, StateRole::kOptimizer, {}),
                c = add("cache", 5, StateRole::kCache, {});
  add("fixed", 3, StateRole::kParameter, Tensor::of<float>({3}, {1, 2, 3}));
  Graph& graph = model->add_entry("train_step");
  const Value x = graph.add_input("x", {DType::f32, {}});
  graph.add_output("loss", x);
  for (const int32_t state : {w, m, c}) graph.add_update(state, genesis::add(graph.state(state), x));
  return model;
}

NamedTensors one() { return {{"x", Tensor::scalar<float>(1)}}; }

class Writer : public ::testing::Test {
 protected:
  fs::path file(int64_t step) const { return folder_ / fmt::format("step-{:09}.genesis", step); }
  void step() { session_.run("train_step", one()); }

  TemporaryFolder folder_, waiting_;
  Session session_{parsed_model()};
};

TEST_F(Writer, KeepsTheValuesOfItsStepWhileTrainingGoesOn) {
  step();
  CheckpointWriter writer(session_, folder_.path(), 9);
  writer.prepare();
  for (int64_t number = 2; number <= 5; ++number) {
    step();
    const Checkpoint expected = save_checkpoint(session_, waiting_.path(), number, 9);
    writer.begin(number);
    step();  // changes every state immediately
    writer.finish();
    EXPECT_EQ(writer.newest(), file(number));
    EXPECT_TRUE(read_bytes(file(number)) == read_bytes(expected.path)) << number;
  }
}

TEST_F(Writer, WithoutBeingPreparedWritesTheSameFile) {
  step();
  CheckpointWriter writer(session_, folder_.path(), 9);
  writer.begin(1);
  EXPECT_EQ(writer.newest(), file(1)) << "it is there already";
  const Checkpoint expected = save_checkpoint(session_, waiting_.path(), 1, 9);
  EXPECT_TRUE(read_bytes(file(1)) == read_bytes(expected.path));
}

// A state that is allocated later is part of later checkpoints.
TEST_F(Writer, FollowsStatesThatAreWrittenForTheFirstTime) {
  step();
  CheckpointWriter writer(session_, folder_.path(), 9);
  writer.prepare();
  writer.begin(1);
  session_.set_state("fixed", Tensor::of<float>({3}, {4, 5, 6}));
  writer.begin(2);
  writer.finish();
  const Checkpoint expected = save_checkpoint(session_, waiting_.path(), 2, 9);
  EXPECT_TRUE(read_bytes(file(2)) == read_bytes(expected.path));
  EXPECT_EQ(load_checkpoint({file(1), 1})
                ->state(load_checkpoint({file(1), 1})->find_state("fixed"))
                .initial.to_doubles()[0],
            1);
}

TEST_F(Writer, RemovesOldOnesAndFinishesBeforeItGoes) {
  step();
  {
    CheckpointWriter writer(session_, folder_.path(), 2);
    writer.prepare();
    for (int64_t number = 1; number <= 4; ++number) writer.begin(number);
  }
  EXPECT_FALSE(fs::exists(file(2)));
  EXPECT_TRUE(fs::exists(file(3)));
  EXPECT_EQ(find_checkpoint(folder_.path())->step, 4);
}

TEST_F(Writer, SaysWhichCheckpointCouldNotBeWritten) {
  fs::create_directory(file(2));
  step();
  CheckpointWriter writer(session_, folder_.path(), 2);
  writer.prepare();
  writer.begin(1);
  writer.begin(2);
  writer.settle();
  expect_error([&] { writer.check(); }, {"step-000000002.genesis", "it is a folder"});
  writer.check();  // reported only once
  EXPECT_EQ(writer.newest(), file(1));
}

TEST_F(Writer, EndsATrainingWhoseCheckpointCouldNotBeWritten) {
  fs::create_directory(file(4));
  Ones source;
  expect_error(
      [&] { train(session_, source, {.steps = 50, .checkpoint = folder_.path(), .checkpoint_every = 2}); },
      {"step-000000004.genesis", "it is a folder", "of 50; its newest checkpoint is " + file(2).string()});
}

}  // namespace
}  // namespace genesis
