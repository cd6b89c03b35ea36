// Tests training jobs as a program calls them: callbacks, stopping and resuming, evaluation, and settings that do nothing.
#include <gtest/gtest.h>

#include <fstream>

#include "builder/graph_builder.h"
#include "builder/image_layers.h"
#include "models/jobs/evaluate_job.h"
#include "models/jobs/train_job.h"
#include "models/jobs/training_checks.h"
#include "models/zoo.h"
#include "schema/core/setting_error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/writer.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis::jobs {
namespace {

using genesis::testing::error_of;

class TrainJobs : public ::testing::Test {
 protected:
  TrainJobs() {
    save_model(*models::make_model("qwen2", {{"vocab_size", "256"},
                                             {"hidden_size", "16"},
                                             {"intermediate_size", "32"},
                                             {"num_hidden_layers", "1"},
                                             {"num_attention_heads", "2"},
                                             {"num_key_value_heads", "1"},
                                             {"max_position_embeddings", "64"}}),
               folder_ / "m.genesis");
    std::string text;
    for (int i = 0; i < 300; ++i) text += "line " + std::to_string(i * i) + "\n";
    std::ofstream(folder_ / "text.txt") << text;
    job_ = {.model = path("m.genesis"), .data = {path("text.txt")}, .optimizer = "adamw,lr=1e-2", .steps = 4};
    job_.source.batch_size = 2;
    job_.source.sequence_length = 16;
    job_.output = path("trained.genesis");
    job_.quiet = true;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  const genesis::testing::TemporaryFolder folder_;
  TrainJob job_;
};

TEST_F(TrainJobs, ReportStepsAndWriteTheModel) {
  std::vector<int64_t> steps;
  job_.on_step = [&](const TrainMetrics& step) { steps.push_back(step.step); };
  const TrainResult result = train(job_);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(result.end, TrainEnd::kAllSteps);
  EXPECT_EQ(result.last.step, 4);
  EXPECT_TRUE(std::isnan(result.evaluation_loss));
  EXPECT_GT(result.memory.arena_bytes, 0);
  EXPECT_TRUE(load_model(job_.output)->find_entry("train_step"));
}

TEST_F(TrainJobs, StopWhenAskedAndResumeToTheSameBits) {
  train(job_);
  const std::string whole = read_whole_file(job_.output);
  job_.checkpoint = path("run");
  job_.output = path("resumed.genesis");
  int asked = 0;
  job_.should_stop = [&] { return ++asked == 2 ? 7 : 0; };
  const TrainResult stopped = train(job_);
  EXPECT_EQ(stopped.end, TrainEnd::kAsked);
  EXPECT_EQ(stopped.asked, 7);
  EXPECT_EQ(stopped.last.step, 2);
  EXPECT_FALSE(stopped.last.checkpoint.empty());
  EXPECT_NE(error_of([&] { train(job_); }).find("--resume"), std::string::npos);
  job_.resume = true;
  job_.should_stop = {};
  EXPECT_EQ(train(job_).last.step, 4);
  const auto a = load_model(path("trained.genesis")), b = load_model(job_.output);
  for (const State& state : a->states()) {
    const State& other = b->state(b->find_state(state.name));
    if (state.role != StateRole::kParameter) continue;
    EXPECT_EQ(state.initial.to_doubles(), other.initial.to_doubles()) << state.name;
  }
}

TEST_F(TrainJobs, EvaluateOnOtherData) {
  job_.evaluation_data = {path("text.txt")};
  job_.evaluate_every = 2;
  const TrainResult result = train(job_);
  EXPECT_GT(result.evaluation_loss, 0);
  EXPECT_GT(result.best_step, 0);
  EXPECT_LE(result.best_loss, result.evaluation_loss);
}

TEST_F(TrainJobs, EndAfterTheirMinutes) {
  job_.minutes = 1e-9;
  job_.steps = 1000;
  const TrainResult result = train(job_);
  EXPECT_EQ(result.end, TrainEnd::kTimeUp);
  EXPECT_EQ(result.last.step, 1);
}

TEST_F(TrainJobs, NameSettingsThatDoNothing) {
  TrainJob job = job_;
  job.resume = true;
  EXPECT_THROW(check_job(job), SettingError);
  job = job_;
  job.text.holdout = 0.1;  // the model brings no tokenizer
  EXPECT_THROW(train(job), SettingError);
  job = job_;
  job.optimizer = "adamw,lr=x";
  EXPECT_NE(error_of([&] { train(job); }).find("--optimizer adamw,lr=x"), std::string::npos);
  job = job_;
  job.output = path("text.txt");
  EXPECT_NE(error_of([&] { train(job); }).find("text.txt"), std::string::npos);
}

TEST_F(TrainJobs, LowerTheLossThatAnEvaluationMeasures) {
  job_.steps = 20;
  train(job_);
  const auto report = [&](const std::string& file) {
    return evaluate({.model = path(file), .source = {.data = path("text.txt")}, .options = {.seq = 32}});
  };
  const EvaluationReport before = report("m.genesis"), after = report("trained.genesis");
  EXPECT_EQ(before.evaluation.tokens, after.evaluation.tokens);
  EXPECT_EQ(before.bytes, before.evaluation.tokens);
  EXPECT_LT(after.evaluation.loss(), before.evaluation.loss());
  EXPECT_NEAR(after.bits_per_byte(), after.evaluation.loss() / std::log(2.0), 1e-9);
}

// A program may do more between the steps of a job.
TEST_F(TrainJobs, ShowTheirModelDataAndSession) {
  Training training(job_);
  EXPECT_EQ(training.file(), path("m.genesis"));
  EXPECT_TRUE(training.model().find_entry("train_step"));
  training.open();
  EXPECT_EQ(training.data().items_per_batch(), 32);
  int64_t steps = 0;
  training.job().on_step = [&](const TrainMetrics&) { ++steps; };
  training.save(training.run());
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(training.session().device(), "cpu");
}

// Returns what is said of a network with one convolution whose norm trains, whose norm is frozen, or that has none.
std::string warning_of(Mode mode, bool has_norm) {
  Model model;
  GraphBuilder g(model, "forward", mode);
  const Scope root(model, 3);
  Value y = nn::Conv2d(root / "conv", 3, 4, {3})(g.input("x", DType::f32, {2, 3, 8, 8}));
  if (has_norm) y = nn::BatchNorm2d(root / "bn", 4)(y);
  g.output("y", y);
  ::testing::internal::CaptureStdout();  // messages go there unless a tool says otherwise
  warn_of_export(model);
  return ::testing::internal::GetCapturedStdout();
}

TEST(TrainChecks, SayWhatAnExportHasTakenFromANetwork) {
  EXPECT_EQ(warning_of(Mode::kTrain, true), "");
  EXPECT_NE(warning_of(Mode::kEval, true).find("1 batch norms use their running statistics"),
            std::string::npos);
  EXPECT_NE(warning_of(Mode::kEval, false).find("convolutions and no norms"), std::string::npos);
}

}  // namespace
}  // namespace genesis::jobs
