// Tests the training loop in one process: metrics, its end, and a loss that is not finite.
#include "executor/training/trainer.h"
#include "executor/training/checkpoint_names.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "executor/training/checkpoint.h"
#include "executor/training/event_file.h"
#include "executor/training/learning_rate.h"
#include "executor/training/metrics_file.h"
#include "passes/training/evaluation.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/reader.h"
#include "schema/graph/text.h"
#include "tests/executor/overflowing_f16.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

// The loss is x / @n, and @n decreases by one per step: 1/3, 1/2, 1, then 1/0.
constexpr const char* kCountdown = R"(
state @n: f32[] buffer = (3.0)
state @one: f32[] buffer = (1.0)
entry train_step(x: f32[]) {
  %loss = div(x, @n)
  %next = sub(@n, @one)
  %lr = mul(@n, @one)
  return loss = %loss
  return lr = %lr
  update @n = %next
}
)";

class Ones final : public BatchSource {
 public:
  NamedTensors batch(int64_t) override { return {{"x", Tensor::scalar<float>(1)}}; }
  int64_t items_per_batch() const override { return 5; }
};

std::vector<nlohmann::json> lines(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(parse_json_text(line));
  return rows;
}

TEST(Trainer, LeavesAFileThatHoldsSomethingElseThanMetrics) {
  const TemporaryFolder folder;
  Session session(std::shared_ptr<const Model>(parse_text(kCountdown)));
  Ones source;
  const auto metrics = folder / "m.jsonl";
  for (const std::string held :
       {"a text\n{\"step\": 1}\n", "\n{\"text\": \"a\"}\n", "3\n", "{\"step\": 0.5}\n"}) {
    std::ofstream(metrics) << held;
    expect_error([&] { train(session, source, {.steps = 1, .metrics = metrics}); },
                 {"m.jsonl", "something else than metrics", "another file"});
    EXPECT_EQ(read_whole_file(metrics), held);
  }
  for (const std::string held : {"", "\n \n", "{\"st", "{\"step\":1,\"lo", "\n{\"step\":1}\n"}) {
    std::ofstream(metrics) << held;
    EXPECT_NO_THROW(check_holds_metrics(metrics)) << held;
  }
}

TEST(Trainer, WritesALineAStep) {
  const TemporaryFolder folder;
  Session session(std::shared_ptr<const Model>(parse_text(kCountdown)));
  Ones source;
  std::vector<TrainMetrics> seen;
  const TrainMetrics last = train(
      session, source, {.steps = 3, .metrics = folder / "m.jsonl", .on_step = [&](const TrainMetrics& m) {
                          seen.push_back(m);
                        }});
  EXPECT_EQ(last.step, 3);
  EXPECT_EQ(last.loss, 1);
  const auto rows = lines(folder / "m.jsonl");
  ASSERT_EQ(rows.size(), 3u);
  ASSERT_EQ(seen.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[i]["step"], i + 1);
    EXPECT_FLOAT_EQ(rows[i]["loss"].get<float>(), 1 / (3 - static_cast<float>(i)));
    EXPECT_EQ(rows[i]["lr"], 3.0 - static_cast<double>(i));
    EXPECT_FALSE(rows[i].contains("grad_norm"));  // this step has none
    EXPECT_GE(rows[i]["seconds"].get<double>(), i ? rows[i - 1]["seconds"].get<double>() : 0);
    EXPECT_GT(rows[i]["items_per_second"].get<double>(), 0);
    EXPECT_EQ(seen[i].loss, rows[i]["loss"].get<double>());
  }
  EXPECT_TRUE(std::isnan(last.grad_norm));
}

// The step has outputs besides its own metrics, and one of them is not a number that may replace a metric.
TEST(Trainer, OutputsOfTheLossStandInTheMetricsByName) {
  std::string text = kCountdown;
  text.replace(text.find("  return lr"), 0,
               "  %scaled = mul(x, @n)\n  return accuracy = %lr\n  return seconds = %scaled\n");
  const TemporaryFolder folder;
  Session session(std::shared_ptr<const Model>(parse_text(text)));
  Ones source;
  const TrainMetrics last =
      train(session, source, {.steps = 2, .metrics = folder / "m.jsonl", .tensorboard = folder / "tb"});
  EXPECT_EQ(last.outputs, (std::map<std::string, double>{{"accuracy", 2}, {"seconds", 2}}));
  const auto rows = lines(folder / "m.jsonl");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["accuracy"], 3);
  EXPECT_EQ(rows[1]["accuracy"], 2);
  EXPECT_EQ(rows[1]["seconds_"], 2) << "the trainer's own seconds keep their name";
  const auto events = std::filesystem::directory_iterator(folder / "tb")->path();
  EXPECT_NE(read_whole_file(events).find("accuracy/train"), std::string::npos);
}

TEST(Trainer, GoesOnWhereMetricsCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  Session session(std::shared_ptr<const Model>(parse_text(kCountdown)));
  Ones source;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(train(session, source, {.steps = 3, .metrics = "/dev/full"}).step, 3);
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find("/dev/full"), std::string::npos) << said;
  EXPECT_NE(said.find("at step 1"), std::string::npos) << said;
  EXPECT_EQ(said.find("at step 2"), std::string::npos) << said;
}

TEST(Trainer, ABatchThatCannotBeMadeEndsTrainingAfterTheStepsBefore) {
  class FailsAtTwo final : public BatchSource {
   public:
    NamedTensors batch(int64_t position) override {
      if (position == 2) fail("no batch {}", position);
      return {{position == 1 && wrong ? "z" : "x", Tensor::scalar<float>(1)}};
    }
    int64_t items_per_batch() const override { return 1; }
    bool wrong = false;
  };
  for (const bool wrong : {false, true})
    for (const bool run_ahead : {false, true}) {
      const TemporaryFolder folder;
      Session session(std::shared_ptr<const Model>(parse_text(kCountdown)));
      FailsAtTwo source;
      source.wrong = wrong;
      const TrainerOptions options{.steps = 3, .metrics = folder / "m.jsonl", .run_ahead = run_ahead};
      expect_error([&] { train(session, source, options); }, {wrong ? "no input 'z'" : "no batch 2"});
      EXPECT_EQ(lines(folder / "m.jsonl").size(), wrong ? 1u : 2u);
    }
}

TEST(Trainer, ALossThatIsNoNumberStopsWithTheStepAndTheWayToTheNode) {
  const TemporaryFolder folder;
  Session session(std::shared_ptr<const Model>(parse_text(kCountdown)));
  Ones source;
  expect_error([&] { train(session, source, {.steps = 10, .metrics = folder / "m.jsonl"}); },
               {"loss is inf", "step 4", "--find-nonfinite"});
  const auto rows = lines(folder / "m.jsonl");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_TRUE(rows[3]["loss"].is_null());  // JSON has no infinity
}

// The loss of the evaluation is (@n - 3)^2, where @n counts 0, 1, 2, ...: it falls until step 3 and rises from then
// on.
constexpr const char* kRisesAgain = R"(
state @n: f32[] parameter trainable
entry loss(x: f32[]) {
  %distance = sub(@n, x)
  %loss = square(%distance)
  return loss = %loss
}
entry train_step(x: f32[]) {
  %next = add(@n, x)
  return loss = @n
  update @n = %next
}
)";

class Threes final : public BatchSource {
 public:
  NamedTensors batch(int64_t position) override {
    EXPECT_LT(position, 2);
    return {{"x", Tensor::scalar<float>(3)}};
  }
  int64_t items_per_batch() const override { return 1; }
  int64_t batches_per_epoch() const override { return 2; }
};

std::shared_ptr<Model> rising_again() {
  std::shared_ptr<Model> model = parse_text(kRisesAgain);
  model->metadata["training"] = "sgd";
  passes::add_evaluation(*model);
  return model;
}

TEST(Trainer, StopsWhenPatienceIsOverAndKeepsTheBest) {
  const TemporaryFolder folder;
  Ones source;
  Threes evaluation;
  Session session(rising_again());
  const TrainerOptions options{.steps = 20,
                               .checkpoint = folder / "run",
                               .checkpoint_every = 4,
                               .evaluation = &evaluation,
                               .evaluate_every = 1,
                               .patience = 2,
                               .metrics = folder / "m.jsonl",
                               .tensorboard = folder / "tb"};
  const TrainMetrics last = train(session, source, options);
  EXPECT_EQ(last.step, 5);
  EXPECT_TRUE(last.out_of_patience);
  EXPECT_EQ(last.evaluation_loss, 4);
  const auto rows = lines(folder / "m.jsonl");
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["evaluation_loss"], 4);
  EXPECT_EQ(rows[2]["evaluation_loss"], 0);
  const auto best = load_model(folder / "run" / kBestModel);
  EXPECT_EQ(best->state(best->find_state("n")).initial.to_doubles()[0], 3);
  EXPECT_EQ(find_checkpoint(folder / "run")->step, 5);
}

// A run whose time is over is evaluated as after its last step. A run that somebody wants to end is not.
TEST(Trainer, EvaluatesAtTheEndWhereverThatIs) {
  for (const Stop stop : {Stop::kSoon, Stop::kInOrder})
    for (const bool run_ahead : {false, true}) {
      const TemporaryFolder folder;
      Ones source;
      Threes evaluation;
      Session session(rising_again());
      int asked = 0;
      const TrainMetrics last = train(session, source,
                                      {.steps = 20,
                                       .checkpoint = folder / "run",
                                       .evaluation = &evaluation,
                                       .metrics = folder / "m.jsonl",
                                       .should_stop = [&] { return ++asked == 3 ? stop : Stop::kNo; },
                                       .run_ahead = run_ahead});
      const bool evaluated = stop == Stop::kInOrder;
      EXPECT_EQ(last.step, run_ahead ? 4 : 3);
      EXPECT_EQ(!std::isnan(last.evaluation_loss), evaluated);
      EXPECT_EQ(lines(folder / "m.jsonl").back().contains("evaluation_loss"), evaluated);
      EXPECT_EQ(std::filesystem::exists(folder / "run" / kBestModel), evaluated);
    }
}

constexpr const char* kConstantRate = R"(
state @w: f32[] parameter trainable = (8.0)
entry loss(x: f32[]) {
  %loss = mul(x, @w)
  %double = add(%loss, %loss)
  %count = cast(%loss) {dtype=i64}
  return loss = %loss
  return double = %double
  return count = %count
}
)";

std::shared_ptr<Model> with_rate(const std::string& options) {
  std::shared_ptr<Model> model = parse_text(kConstantRate);
  passes::add_train_step(*model, passes::parse_train_options(options));
  passes::add_evaluation(*model);
  return model;
}

TEST(Trainer, EvaluatesTheOutputsOfTheLossToo) {
  const TemporaryFolder folder;
  Ones source;
  Threes evaluation;
  Session session(with_rate("sgd,lr=1"));
  const TrainMetrics last =
      train(session, source,
            {.steps = 1, .evaluation = &evaluation, .evaluation_batches = 2, .metrics = folder / "m.jsonl"});
  EXPECT_EQ(last.evaluation_loss, 21) << "3 times the weight, which is 7 by now";
  EXPECT_EQ(last.evaluation_outputs, (std::map<std::string, double>{{"double", 42}, {"count", 42}}))
      << "the mean of a real number, the sum of counts";
  EXPECT_EQ(lines(folder / "m.jsonl")[0]["evaluation_double"], 42);
}

TEST(Trainer, AnEvaluationTakesTheDataOnceAtMost) {
  for (const int64_t batches : {int64_t{0}, int64_t{2}, int64_t{3}, std::numeric_limits<int64_t>::max()}) {
    Ones source;
    Threes evaluation;
    Session session(with_rate("sgd,lr=1"));
    const TrainMetrics last =
        train(session, source, {.steps = 1, .evaluation = &evaluation, .evaluation_batches = batches});
    EXPECT_EQ(last.evaluation_outputs.at("count"), 42) << "twice 21, with " << batches;
  }
}

TEST(Trainer, TheLearningRateIsSetBetweenSteps) {
  Ones source;
  Session session(with_rate("sgd,lr=0.5"));
  EXPECT_EQ(learning_rate(session), 0.5);
  std::vector<double> rates;
  const TrainMetrics last =
      train(session, source,
            {.steps = 4,
             .on_step = [&](const TrainMetrics& m) { rates.push_back(m.learning_rate); },
             .learning_rate = [](const TrainMetrics& m) -> std::optional<double> {
               if (m.step == 2) return 0.25;
               return std::nullopt;
             },
             .run_ahead = true});
  EXPECT_EQ(rates, (std::vector<double>{0.5, 0.5, 0.25, 0.25}));
  EXPECT_EQ(last.step, 4);
  EXPECT_EQ(session.state("w").item<double>(), 8 - 1.5);
  set_learning_rate(session, 2);
  session.run("train_step", source.batch(0));
  EXPECT_EQ(session.state("w").item<double>(), 4.5);
  for (const double wrong : {-1.0, std::nan(""), 1e300})
    expect_error([&] { set_learning_rate(session, wrong); }, {"a learning rate of"});
}

// The schedule continues from the new rate, and so does a plateau's. A checkpoint contains the rate.
TEST(Trainer, ASetLearningRateIsTheSchedulesAndLastsInCheckpoints) {
  const TemporaryFolder folder;
  Ones source;
  const std::string halving = "sgd,lr=1,schedule=step,step_size=1,gamma=0.5";
  Session session(with_rate(halving));
  const auto set_at_2 = [](const TrainMetrics& m) {
    return m.step == 2 ? std::optional<double>(16) : std::nullopt;
  };
  train(session, source, {.steps = 2, .checkpoint = folder / "run", .learning_rate = set_at_2});
  Session resumed(load_model(find_checkpoint(folder / "run")->path));
  EXPECT_EQ(learning_rate(resumed), 16);
  EXPECT_EQ(train(resumed, source, {.steps = 3}).learning_rate, 4) << "16 / 2^2";
  Session loaded(with_rate(halving));
  loaded.load(find_checkpoint(folder / "run")->path);
  EXPECT_EQ(learning_rate(loaded), 16);

  Session plateau(with_rate("sgd,lr=1,schedule=plateau"));
  set_learning_rate(plateau, 0.125);
  EXPECT_EQ(plateau.run("train_step", source.batch(0)).at("lr").item<double>(), 0.125);
  Session none(std::shared_ptr<const Model>(parse_text(kCountdown)));
  expect_error([&] { set_learning_rate(none, 1); }, {"'optimizer.lr'", "--train"});
}

// The history of evaluations is part of a checkpoint.
TEST(Trainer, PatienceGoesOnAfterAResume) {
  const TemporaryFolder folder;
  Ones source;
  Threes evaluation;
  TrainerOptions options{.steps = 4,
                         .checkpoint = folder / "run",
                         .evaluation = &evaluation,
                         .evaluate_every = 1,
                         .patience = 2};
  {
    Session session(rising_again());
    EXPECT_FALSE(train(session, source, options).out_of_patience);
  }
  options.steps = 20;
  Session resumed(std::shared_ptr<const Model>(load_checkpoint(*find_checkpoint(folder / "run"))));
  EXPECT_EQ(train(resumed, source, options).step, 5);
}

TEST(Trainer, WhatCannotBeEvaluatedIsSaidAtTheStart) {
  Ones endless;
  Session session(rising_again()), without(std::shared_ptr<const Model>(parse_text(kCountdown)));
  expect_error([&] { train(session, endless, {.steps = 1, .evaluation = &endless}); }, {"no end", "batches"});
  expect_error(
      [&] { train(without, endless, {.steps = 1, .evaluation = &endless, .evaluation_batches = 1}); },
      {"no entry point 'evaluate'"});
  expect_error([&] { train(session, endless, {.steps = 1, .patience = -1}); }, {"must not be negative"});
}

TEST(EventFile, ChecksumsAreThoseOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(""), 0u);
}

// Equal byte for byte except for the time. A record is the length, its checksum, the data, and their checksum.
TEST(EventFile, HoldsScalars) {
  const TemporaryFolder folder;
  EventFile file(folder / "tb");
  file.write(300, {{"loss", 0.5}, {"missing", std::nan("")}});
  const std::string bytes = read_whole_file(file.path());
  const auto length_at = [&](size_t at) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes.at(at)));
  };
  const size_t second = 12 + length_at(0) + 4;
  EXPECT_EQ(bytes.substr(12 + 9, 15), std::string("\x1a\x0d") + "brain.Event:2");
  const std::string event = bytes.substr(second + 12, length_at(second));
  EXPECT_EQ(event.substr(9), std::string("\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f", 18));
  EXPECT_EQ(bytes.size(), second + 12 + event.size() + 4);
}

// The gradients of every step overflow at any scale, because the weight itself is too large for f16.
TEST(Trainer, StepsThatAreAllSkippedStopWithTheNode) {
  const std::shared_ptr<Model> model = overflowing_f16_model();
  ThreeRows source;
  Session session(model);
  const TrainMetrics few = train(session, source, {.steps = 3});
  EXPECT_EQ(few.skipped_steps, 3);
  EXPECT_EQ(few.loss_scale, 16384) << "that of the step, before it was halved again";
  expect_error([&] { train(session, source, {.steps = 20, .max_skipped_steps = 5}); },
               {"5 steps in a row", "up to step 2", "'w.cast'", "an infinity", "--keep-f32"});
}

TEST(Trainer, StopsWhenAskedAndRunsNothingWhenDone) {
  Session session(std::shared_ptr<const Model>(parse_text(kCountdown)));
  Ones source;
  EXPECT_EQ(train(session, source, {.steps = 0}).step, 0);
  int asked = 0;
  EXPECT_EQ(train(session, source,
                  {.steps = 3, .should_stop = [&] { return ++asked == 2 ? Stop::kSoon : Stop::kNo; }})
                .step,
            2);
  EXPECT_EQ(session.state("n").to_doubles()[0], 1);
}

// A step started early gives the same results and leaves the same state. No step is started early before a
// checkpoint.
TEST(Trainer, AStepThatStartsEarlyIsTheSameStep) {
  struct Left {
    std::vector<double> losses;
    double n;
    std::vector<std::string> checkpoints;
  };
  const auto train_with = [](bool run_ahead, int64_t checkpoint_every) {
    const TemporaryFolder folder;
    std::string text = kCountdown;
    text.replace(text.find("3.0"), 3, "50.0");
    Session session(std::shared_ptr<const Model>(parse_text(text)));
    Ones source;
    Left left;
    train(session, source,
          {.steps = 11,
           .checkpoint = folder / "run",
           .checkpoint_every = checkpoint_every,
           .keep_checkpoints = 9,
           .on_step = [&](const TrainMetrics& m) { left.losses.push_back(m.loss); },
           .run_ahead = run_ahead});
    left.n = session.state("n").to_doubles()[0];
    for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
      left.checkpoints.push_back(entry.path().filename());
    std::ranges::sort(left.checkpoints);
    return left;
  };
  for (const int64_t checkpoint_every : {0, 1, 3}) {
    const Left plain = train_with(false, checkpoint_every), ahead = train_with(true, checkpoint_every);
    EXPECT_EQ(ahead.losses, plain.losses);
    EXPECT_EQ(ahead.losses.size(), 11u);
    EXPECT_EQ(ahead.n, 39);
    EXPECT_EQ(ahead.checkpoints, plain.checkpoints);
  }
}

TEST(Trainer, AStepThatHasBeenStartedIsDoneBeforeTheRunStops) {
  std::string text = kCountdown;
  text.replace(text.find("3.0"), 3, "50.0");
  for (const bool run_ahead : {false, true}) {
    Session session(std::shared_ptr<const Model>(parse_text(text)));
    Ones source;
    int asked = 0;
    const TrainMetrics last = train(session, source,
                                    {.steps = 9,
                                     .should_stop = [&] { return ++asked == 4 ? Stop::kSoon : Stop::kNo; },
                                     .run_ahead = run_ahead});
    EXPECT_EQ(last.step, run_ahead ? 5 : 4);
    EXPECT_EQ(asked, 4);
    EXPECT_EQ(session.state("n").to_doubles()[0], static_cast<double>(50 - last.step));
  }
}

TEST(Trainer, MistakesAreNamed) {
  Session session(std::shared_ptr<const Model>(parse_text(kCountdown)));
  Ones source;
  expect_error([&] { train(session, source, {.steps = 1, .metrics = "/no/such/folder/m.jsonl"}); },
               {"/no/such/folder/m.jsonl"});
  Session lossless(
      std::shared_ptr<const Model>(parse_text("entry train_step(x: f32[]) {\n  return y = x\n}\n")));
  expect_error([&] { train(lossless, source, {.steps = 1}); }, {"output 'loss'", "none"});
  expect_error([&] { train(session, source, {.entry = "fit", .steps = 1}); }, {"'fit'", "train_step"});
  expect_error([&] { train(session, source, {.steps = 1, .max_skipped_steps = 0}); },
               {"0 skipped", "positive"});
}

}  // namespace
}  // namespace genesis
