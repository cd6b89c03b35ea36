// Tests that checkpoints written during training are byte-identical to those written while training waits. On the CPU
// and on a GPU, with weights in f32 and with weights kept as halves.
#include <filesystem>

#include "executor/training/checkpoint.h"
#include "executor/training/trainer.h"
#include "tests/cuda/tiny_qwen.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

struct Setup {
  std::string device, precision;
};

class CheckpointsBeside : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (GetParam().device == "cuda" && !why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
  }
  static std::shared_ptr<Model> model() { return tiny_qwen("adamw,lr=1e-3,clip=1.0" + GetParam().precision); }
  static Session session_of(const std::shared_ptr<const Model>& model) {
    return Session(model, {.device = GetParam().device, .weight_halves = !GetParam().precision.empty()});
  }
};

class TinyBatches final : public BatchSource {
 public:
  NamedTensors batch(int64_t position) override { return tiny_batch(position); }
  int64_t items_per_batch() const override { return kTinyBatch; }
};

constexpr int64_t kSteps = 12, kEvery = 2;

TEST_P(CheckpointsBeside, AreTheFilesOfATrainingThatWaits) {
  const TemporaryFolder beside, waiting;
  Session session = session_of(CheckpointsBeside::model());
  TinyBatches source;
  int64_t stalls = 0;
  const auto on_step = [&](const TrainMetrics& m) {
    if (m.step % kEvery == 0) save_checkpoint(session, waiting.path(), m.step, 100);
    stalls += m.checkpoint_stall_seconds > 0;
  };
  const TrainMetrics last = train(session, source,
                                  {.steps = kSteps,
                                   .checkpoint = beside.path(),
                                   .checkpoint_every = kEvery,
                                   .keep_checkpoints = 100,
                                   .on_step = on_step});
  EXPECT_EQ(stalls, kSteps / kEvery - 1) << "the last one comes after the last step";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(waiting.path())) {
    const std::string name = entry.path().filename().string();
    ASSERT_TRUE(std::filesystem::exists(beside / name)) << name;
    EXPECT_TRUE(read_bytes(beside / name) == read_bytes(waiting / name)) << name;
    ++files;
  }
  EXPECT_EQ(files, kSteps / kEvery);
  EXPECT_EQ(last.checkpoint, beside / fmt::format("step-{:09}.genesis", kSteps));
}

TEST_P(CheckpointsBeside, ResumeAsTheRunThatWentOn) {
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model = CheckpointsBeside::model();
  TinyBatches source;
  Session whole = session_of(model), first = session_of(model);
  const TrainMetrics expected = train(whole, source, {.steps = kSteps});
  const auto stop = [&, n = 0]() mutable { return ++n == 7 ? Stop::kSoon : Stop::kNo; };
  train(first, source,
        {.steps = kSteps, .checkpoint = folder.path(), .checkpoint_every = kEvery, .should_stop = stop});
  const auto found = find_checkpoint(folder.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 7);
  Session resumed = session_of(load_checkpoint(*found));
  EXPECT_EQ(train(resumed, source, {.steps = kSteps}).loss, expected.loss);
  for (const State& row : model->states())
    EXPECT_EQ(resumed.state(row.name).to_doubles(), whole.state(row.name).to_doubles()) << row.name;
}

INSTANTIATE_TEST_SUITE_P(On, CheckpointsBeside,
                         ::testing::Values(Setup{"cpu", ""}, Setup{"cpu", ",precision=bf16"},
                                           Setup{"cuda", ""}, Setup{"cuda", ",precision=bf16"}),
                         [](const auto& info) {
                           return info.param.device + (info.param.precision.empty() ? "" : "_halves");
                         });

}  // namespace
}  // namespace genesis
