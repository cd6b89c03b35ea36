// Training as one call: opens a model and data of any kind, trains, evaluates on held-out data, writes checkpoints, metrics and
// the final file, and resumes. It does what `genesis-run train` does, and installs no signal handlers and prints nothing.
//
//     jobs::TrainJob job{.model = "qwen2.genesis", .data = {"text.txt"}, .optimizer = "adamw,lr=3e-3", .steps = 200};
//     job.output = "trained.genesis";
//     job.on_step = [](const TrainMetrics& step) { std::cout << step.loss << "\n"; };
//     const jobs::TrainResult result = jobs::train(job);
//
// Ranks train together if each calls it with the same job and its World. Only the first rank writes metrics and logs warnings of
// the run. An Error of one rank must end the others: World::abort().
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "executor/distributed/world.h"
#include "executor/inspector.h"
#include "executor/training/trainer.h"
#include "models/jobs/train_settings.h"

namespace genesis::jobs {

// Throws SettingError for settings that need or exclude another one, and Error if an output would replace other content.
void check_job(const TrainJob& job);

enum class TrainEnd : uint8_t { kAllSteps, kAsked, kTimeUp, kOutOfPatience };

struct TrainResult {
  TrainMetrics last;  // metrics of the last step; the loss is NaN if there was no step to do
  TrainEnd end = TrainEnd::kAllSteps;
  int asked = 0;             // for kAsked: the number that should_stop returned
  double longest_stall = 0;  // seconds for which a checkpoint blocked the run
  // Results of the latest evaluation, and of the best one; NaN and 0: there was none.
  double evaluation_loss = std::nan(""), best_loss = std::nan("");
  std::map<std::string, double> evaluation_outputs = {};
  int64_t best_step = 0;
  MemoryStatistics memory = {};
};

// A job in steps, for a program that does more between them. Every method throws Error; all ranks call them in the same order.
class Training {
 public:
  // Checks the job, locks the folder of checkpoints, and loads the model with its training step.
  explicit Training(TrainJob job, std::shared_ptr<World> world = std::make_shared<World>());
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void open();                           // opens the data and the session
  TrainResult run();                     // trains; needs open()
  void save(const TrainResult& result);  // writes the output, if the job has one

  // Returns the job of this rank. Its callbacks may be set until the step that calls them.
  TrainJob& job() { return job_; }
  const std::string& file() const { return file_; }  // the model file itself
  const Model& model() const { return *model_; }
  Session& session() { return *session_; }
  BatchSource& data() { return *training_; }  // this rank's share of every batch

 private:
  void check_same(const std::string& digest);
  void open_data();
  void check_exchanges();
  void watch(const TrainMetrics& step);
  TrainerOptions trainer_options();

  TrainJob job_;
  std::shared_ptr<World> world_;
  std::shared_ptr<const CheckpointLock> lock_;
  std::string file_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<BatchSource> training_, evaluation_;
  std::unique_ptr<Session> session_;
  TrainResult result_;
  StopVote stop_;              // the reasons why all ranks stopped
  int64_t rates_of_zero_ = 0;  // steps with a learning rate of 0 since the run began; -1: ended
};

// Does all steps of the job.
TrainResult train(const TrainJob& job, std::shared_ptr<World> world = std::make_shared<World>());

}  // namespace genesis::jobs
