#include "models/jobs/train_job.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "executor/distributed/traffic.h"
#include "executor/training/batch_source.h"
#include "executor/training/checkpoint.h"
#include "models/jobs/load_training.h"
#include "models/jobs/output_files.h"
#include "models/jobs/stop_votes.h"
#include "models/jobs/train_data.h"
#include "models/jobs/training_checks.h"
#include "models/jobs/training_output.h"
#include "passes/training/evaluation.h"
#include "passes/training/plateau.h"
#include "passes/training/train_options.h"
#include "schema/core/setting_error.h"
#include "schema/messages/log.h"
#include "schema/ranks/mesh_groups.h"
#include "schema/version.h"

namespace genesis::jobs {
namespace {

// Refuses --steps below the steps already done: the result would be a model with more steps.
void check_steps(const Model& model, const TrainJob& job) {
  const int64_t done = steps_done(model);
  if (done > job.steps)
    fail(
        "--steps {}: {} steps are done already, and --steps counts those before a resume too: give {} or "
        "more",
        job.steps, done, done);
}

void prepare_evaluation(const TrainJob& job, const std::string& file, Model& model) {
  if (job.evaluates()) return passes::add_evaluation(model);
  if (model.find_entry(optim::kPlateauEntry))
    fail(
        "the schedule '{}' of {} follows the loss of an evaluation: give --eval-data FILE and --eval-every "
        "STEPS",
        optim::PlateauLR::kName, file);
}

// Returns the job of a rank. All ranks do the same work, but only the first keeps and shows results.
TrainJob job_of_rank(TrainJob job, const World& world) {
  if (world.is_first()) return job;
  job.quiet = true;
  for (std::string* file : {&job.metrics, &job.tensorboard}) file->clear();
  return job;
}

// Checks the start before anything is read. All ranks see the first one's lock, and so also the files of the others.
void check_start(World& world, const TrainJob& job) {
  world.require_same("the version of Genesis", std::string(kVersion));
  std::string folder = job.resume ? "--resume " : "";
  if (!job.checkpoint.empty() && world.size() > 1)
    folder += fmt::format("--checkpoint {} of {}", job.checkpoint, CheckpointLock::owner(job.checkpoint));
  world.require_same("the folder of checkpoints, which all ranks must share,", folder);
}

// Returns the options of the data. Numbers in JSON lines get the dtypes of the model's inputs.
data::SourceOptions source_options(const TrainJob& job, const Graph& train_step) {
  data::SourceOptions options = job.source;
  for (ValueId id : train_step.inputs())
    options.dtypes.emplace(train_step.value(id).name, train_step.type(id).dtype);
  return options;
}

TrainEnd end_of(const TrainMetrics& last, const TrainJob& job, const StopVote& stop) {
  if (last.step >= job.steps) return TrainEnd::kAllSteps;  // a request that came too late interrupted nothing
  if (last.out_of_patience) return TrainEnd::kOutOfPatience;
  return stop.asked == 0 ? TrainEnd::kTimeUp : TrainEnd::kAsked;
}

}  // namespace

void check_job(const TrainJob& job) {
  if (!job.optimizer.empty()) try {
      passes::check_train_options(passes::parse_train_options(job.optimizer));
    } catch (const Error& error) {
      fail_setting("--optimizer {}: {}", job.optimizer, error.message());
    }
  if (job.lora.dropout == 1) fail_setting("--lora-dropout 1: expected a number of 0 or more and less than 1");
  if (job.checkpoint_every > 0 && job.checkpoint.empty())
    fail_setting("--checkpoint-every needs --checkpoint DIR, which is required");
  if (job.resume && job.checkpoint.empty())
    fail_setting("--resume needs --checkpoint DIR, which is required");
  check_output_files(job);
}

Training::Training(TrainJob job, std::shared_ptr<World> world)
    : job_(job_of_rank(std::move(job), *world)), world_(std::move(world)) {
  check_job(job_);
  if (world_->is_first()) check_can_write(job_.output);
  check_can_append(job_.metrics);
  check_can_make_folder(job_.tensorboard);
  if (!job_.checkpoint.empty() && world_->is_first())  // before the folder is read
    lock_ = std::make_shared<CheckpointLock>(job_.checkpoint);
  check_start(*world_, job_);
  LoadedTraining loaded = load_training(job_, *world_);
  model_ = std::move(loaded.model);
  file_ = loaded.file;
  check_trainable({*model_, file_});
  check_steps(*model_, job_);
  prepare_evaluation(job_, file_, *model_);
  if (world_->size() > 1) check_same(loaded.digest);
}

Training::~Training() = default;

// Ranks with different files or options would wait for each other forever, or learn nonsense.
void Training::check_same(const std::string& digest) {
  World& world = *world_;
  world.require_same("the training step", train_step_text(*model_));
  world.require_same("the data's order",
                     fmt::format("{} --data {}", job_.data_order(), fmt::join(job_.data, " ")));
  world.require_same("when to stop and evaluate",
                     fmt::format("--steps {} --eval-every {} --eval-batches {} --patience {}", job_.steps,
                                 job_.evaluate_every, job_.evaluation_batches, job_.patience));
  const SessionOptions& session = job_.session;
  world.require_same("what is shared and kept",
                     fmt::format("--zero {} --checkpoint '{}' --checkpoint-every {}{}", session.zero,
                                 job_.checkpoint, job_.checkpoint_every, job_.output.empty() ? "" : " -o"));
  world.require_same("how plans are made",
                     fmt::format("--disable '{}' --memory-budget '{}'{}", fmt::join(session.disabled, ","),
                                 session.memory_budget ? std::to_string(*session.memory_budget) : "",
                                 session.optimize ? "" : " --no-optimize"));
  world.require_same("the content of the model file", digest);
}

void Training::open() {
  open_data();
  session_ = std::make_unique<Session>(model_, options_of_rank(job_.session, world_));
  if (world_->is_first()) warn_of_what_will_be_lost(job_, *model_);
  if (world_->size() > 1) check_exchanges();
}

// Opens this rank's share of every batch. Files of one name may differ between hosts, so the content is compared.
// Evaluation data is not shuffled, so that every evaluation sees the same samples.
void Training::open_data() {
  data::SourceOptions options = source_options(job_, model_->entry("train_step"));
  DataRequest request{
      .file = file_, .text = job_.text, .image = job_.image, .quiet = job_.quiet, .progress = job_.progress};
  const auto open = [&](const std::vector<std::string>& names, const char* where) {
    return with_context([&] { return open_train_data(names, *model_, options, request); },
                        [&] { return where; });
  };
  TrainData data = open(job_.data, "in the data to train on");
  training_ = std::move(data.training), evaluation_ = std::move(data.held_out);
  for (const auto& [key, value] : data.metadata) model_->metadata[key] = value;
  if (!job_.evaluation_data.empty()) {
    options.shuffle = false;
    options.fill_last = true;
    request.entry = passes::kEvaluationEntry;
    request.text.holdout = 0;
    evaluation_ = open(job_.evaluation_data, "in the data of --eval-data").training;
  }
  const std::string content = digest_of_data(*training_);
  if (world_->size() > 1)
    world_->require_same("the content of the data",
                         content + (evaluation_ ? digest_of_data(*evaluation_) : ""));
  remember_data(job_, content, *model_);
  for (auto* source : {&training_, &evaluation_})
    if (*source) *source = share_of(std::move(*source), world_->mesh(), world_->rank());
}

// Ranks whose plans differ, as those of different builds may, would wait for collectives that others never call.
void Training::check_exchanges() {
  const Plan plan = session_->plan("train_step", training_->batch(0));
  for (const std::string& name : group_names(world_->mesh()))
    world_->require_same(fmt::format("what the training step exchanges along '{}'", name),
                         exchanges_along(name, plan), name);
}

// Observes a step, and warns of a learning rate that stays 0. A warm-up has rate 0 in its first step only.
void Training::watch(const TrainMetrics& step) {
  result_.longest_stall = std::max(result_.longest_stall, step.checkpoint_stall_seconds);
  if (!std::isnan(step.evaluation_loss))
    result_.evaluation_loss = step.evaluation_loss, result_.evaluation_outputs = step.evaluation_outputs;
  if (step.is_best) result_.best_step = step.step, result_.best_loss = step.evaluation_loss;
  if (!world_->is_first() || rates_of_zero_ < 0 || step.skipped_steps > 0) return;
  rates_of_zero_ = step.learning_rate == 0 ? rates_of_zero_ + 1 : -1;
  if (rates_of_zero_ != 2) return;
  if (job_.begins_training() && step.step == 2)
    return log_warning(
        "the learning rate is 0 from the first step on, so nothing is learnt: give --optimizer NAME,lr=RATE");
  log_warning(
      "the learning rate is 0, so nothing is learnt: the schedule of the training that {} brings has come "
      "to its end; --optimizer NAME,lr=RATE begins another training with these weights",
      file_);
}

TrainerOptions Training::trainer_options() {
  TrainerOptions options;
  options.steps = job_.steps;
  options.checkpoint = job_.checkpoint;
  options.is_first_rank = world_->is_first();
  options.run_id = name_of_run(*world_);
  options.checkpoint_lock = std::move(lock_);
  options.checkpoint_every = job_.checkpoint_every;
  options.keep_checkpoints = static_cast<int>(job_.keep);
  options.max_skipped_steps = job_.max_skipped;
  options.metrics = job_.metrics;
  options.tensorboard = job_.tensorboard;
  options.evaluation = evaluation_.get();
  options.evaluate_every = job_.evaluate_every;
  options.evaluation_batches = job_.evaluation_batches;
  options.patience = job_.patience;
  options.run_ahead = session_->is_asynchronous();
  options.on_step = [this](const TrainMetrics& step) {
    watch(step);
    if (job_.on_step) job_.on_step(step);
  };
  return options;
}

TrainResult Training::run() {
  TrainerOptions options = trainer_options();
  StopVotes votes(*world_);
  const auto start = std::chrono::steady_clock::now();
  options.should_stop = [&] {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    stop_ = votes.after_step(
        {job_.should_stop ? job_.should_stop() : 0, job_.minutes > 0 && elapsed >= job_.minutes * 60});
    if (stop_.asked != 0) return Stop::kSoon;  // a request does not wait for an evaluation
    return stop_.time_up ? Stop::kInOrder : Stop::kNo;
  };
  result_.last = genesis::train(*session_, *training_, options);
  result_.end = end_of(result_.last, job_, stop_);
  result_.asked = result_.end == TrainEnd::kAsked ? stop_.asked : 0;
  result_.memory = Inspector(*session_).memory();
  return result_;
}

// If writing fails, as on a full disk, the error says whether a checkpoint keeps the work.
void Training::save(const TrainResult& result) {
  if (job_.output.empty()) return;
  with_context(
      [&] { write_output(job_.output, *session_, *world_); },
      [&] {
        const std::string done = fmt::format("training reached step {} of {}", result.last.step, job_.steps);
        if (job_.checkpoint.empty()) return done + ", and nothing else keeps it";
        return fmt::format("{}, which is kept in {}: the same command with --resume goes on from there", done,
                           job_.checkpoint);
      });
}

TrainResult train(const TrainJob& job, std::shared_ptr<World> world) {
  Training training(job, std::move(world));
  training.open();
  TrainResult result = training.run();
  training.save(result);
  return result;
}

}  // namespace genesis::jobs
