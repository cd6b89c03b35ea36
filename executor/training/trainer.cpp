#include "executor/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "executor/inspector.h"
#include "executor/snapshot.h"
#include "executor/training/checkpoint.h"
#include "executor/training/checkpoint_names.h"
#include "executor/training/checkpoint_shards.h"
#include "executor/training/checkpoint_writer.h"
#include "executor/training/evaluator.h"
#include "executor/training/learning_rate.h"
#include "executor/training/metrics_file.h"
#include "passes/training/expert_load.h"
#include "schema/file/writer.h"

namespace genesis {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double scalar_or_nan(const NamedTensors& outputs, const std::string& name) {
  const auto at = outputs.find(name);
  return at == outputs.end() || at->second.numel() != 1 ? std::nan("") : at->second.item<double>();
}

// The speed over the latest steps, not over the whole run, since the first step compiles.
class SpeedMeter {
 public:
  double update(double seconds, int64_t items) {
    const double elapsed = seconds - last_;
    last_ = seconds;
    if (steps_++ == 0) return elapsed > 0 ? static_cast<double>(items) / elapsed : 0;
    smooth_ = smooth_ == 0 ? elapsed : 0.8 * smooth_ + 0.2 * elapsed;
    return smooth_ > 0 ? static_cast<double>(items) / smooth_ : 0;
  }

 private:
  double last_ = 0, smooth_ = 0;
  int64_t steps_ = 0;
};

// The number that says most is the load of the busiest expert of all layers, as a multiple of the mean.
void read_expert_load(const NamedTensors& outputs, TrainMetrics& metrics) {
  const auto at = outputs.find(passes::kExpertLoad);
  if (at == outputs.end() || at->second.type().shape.rank() != 2) return;
  const std::vector<double> shares = at->second.to_doubles();
  const auto experts = static_cast<size_t>(at->second.size(1));
  if (shares.empty()) return;
  for (size_t first = 0; first < shares.size(); first += experts)
    metrics.expert_load.emplace_back(shares.begin() + static_cast<ptrdiff_t>(first),
                                     shares.begin() + static_cast<ptrdiff_t>(first + experts));
  metrics.outputs["expert_load_max"] = *std::ranges::max_element(shares) * static_cast<double>(experts);
}

TrainMetrics read_metrics(const NamedTensors& outputs, int64_t step) {
  TrainMetrics metrics{.step = step};
  if (!outputs.contains("loss")) fail("a training step needs an output 'loss', this one has none");
  metrics.loss = scalar_or_nan(outputs, "loss");
  metrics.grad_norm = scalar_or_nan(outputs, "grad_norm");
  metrics.learning_rate = scalar_or_nan(outputs, "lr");
  metrics.loss_scale = scalar_or_nan(outputs, "loss_scale");
  if (outputs.contains("skipped_steps"))
    metrics.skipped_steps = static_cast<int64_t>(scalar_or_nan(outputs, "skipped_steps"));
  const std::set<std::string> own = {"loss", "grad_norm", "lr", "loss_scale", "skipped_steps"};
  for (const auto& [name, value] : outputs)
    if (value.numel() == 1 && !own.contains(name)) metrics.outputs[name] = value.item<double>();
  read_expert_load(outputs, metrics);
  return metrics;
}

void check_loss(const TrainMetrics& metrics) {
  if (std::isfinite(metrics.loss) || metrics.skipped_steps > 0) return;
  fail(
      "the loss is {} at step {}: run with --find-nonfinite to see which node made it first, lower the "
      "learning rate, or clip gradients",
      std::isnan(metrics.loss) ? "NaN" : "infinite", metrics.step);
}

// A lower loss scale cures an overflow. If no scale helps, this throws an error.
void check_skips(Session& session, const TrainMetrics& metrics, const TrainerOptions& options,
                 const NamedTensors& inputs) {
  if (metrics.skipped_steps == 0 || metrics.skipped_steps < options.max_skipped_steps) return;
  const std::string why = Inspector(session).explain_nonfinite(options.entry, inputs);
  fail(
      "{} steps in a row had gradients that are not finite, up to step {}, while the loss scale went down to "
      "{}: {}; lower the learning rate, keep that node in f32 (--keep-f32), or train in bf16",
      metrics.skipped_steps, metrics.step, metrics.loss_scale,
      why.empty() ? "with this scale the same batch is finite" : why);
}

// Uploads the next batch during the current step. If the batch is not ready, or cannot be used, the next step deals with it.
void stage_next(Session& session, const Prefetcher& batches, int64_t step, const TrainerOptions& options) {
  if (step == options.steps) return;
  try {
    if (const auto next = batches.peek()) session.stage(options.entry, *next);
  } catch (const Error&) {
  }
}

void check_options(const TrainerOptions& options) {
  if (options.steps < 0) fail("the number of steps is {}, it must not be negative", options.steps);
  if (options.checkpoint_every < 0)
    fail("checkpoints every {} steps: the number must not be negative", options.checkpoint_every);
  if (options.evaluate_every < 0 || options.evaluation_batches < 0 || options.patience < 0)
    fail("evaluation every {} steps of {} batches with a patience of {}: numbers must not be negative",
         options.evaluate_every, options.evaluation_batches, options.patience);
  if (options.max_skipped_steps < 1)
    fail("an error after {} skipped steps: the number must be positive", options.max_skipped_steps);
}

// One run, beginning with the step after `first`. The order of members matters for destruction: the lock is released after the
// writer has finished its checkpoint.
class TrainingRun {
 public:
  TrainingRun(Session& session, BatchSource& source, const TrainerOptions& options, int64_t first)
      : session_(session),
        source_(source),
        options_(options),
        first_(first),
        lock_(options.checkpoint_lock),
        last_{.step = first, .loss = std::nan("")} {
    if (options.evaluation) evaluator_.emplace(session, *options.evaluation, options.evaluation_batches);
    if (options.checkpoint.empty()) return;
    if (!lock_ && options.is_first_rank) lock_ = std::make_shared<CheckpointLock>(options.checkpoint);
    writer_.emplace(session, options.checkpoint, options.keep_checkpoints, options.run_id);
  }

  TrainMetrics run() {
    Prefetcher batches(source_, first_);
    Files files{MetricsFile(options_.metrics, first_), TensorBoardFile(options_.tensorboard)};
    start_ = Clock::now();
    bool going = true;
    for (int64_t step = first_ + 1; going && step <= options_.steps; ++step)
      with_context([&] { going = do_step(step, batches, files); }, [&] { return where_it_failed(step); });
    return last_;
  }

 private:
  struct Files {
    MetricsFile metrics;
    TensorBoardFile tensorboard;
    void write(const TrainMetrics& m) {
      metrics.write(m);
      tensorboard.write(m);
    }
  };

  // Returns true if another step may follow.
  bool do_step(int64_t step, Prefetcher& batches, Files& files) {
    const NamedTensors inputs = next_ ? take_next() : batches.next();
    if (!next_) session_.start(options_.entry, inputs);
    next_.reset();
    const bool evaluates = is_evaluated(step);
    if (runs_ahead(step))
      start_next(batches);
    else if (!evaluates)
      stage_next(session_, batches, step, options_);
    TrainMetrics metrics = read_metrics(session_.result(), step);
    metrics.seconds = seconds_since(start_);
    metrics.items_per_second = speed_.update(metrics.seconds, source_.items_per_batch());
    metrics.checkpoint_stall_seconds = std::exchange(stall_, 0);
    if (writer_) metrics.checkpoint = writer_->newest();
    if (stop_ == Stop::kNo && options_.should_stop) stop_ = options_.should_stop();
    // A step that has been started is finished before the run stops.
    const bool stops = stop_ != Stop::kNo && (!next_ || next_->failure);
    const bool ends_in_order = evaluator_ && stops && stop_ == Stop::kInOrder;
    if ((evaluates || ends_in_order) && std::isfinite(metrics.loss)) evaluate(metrics);
    files.write(metrics);
    check_loss(metrics);
    check_skips(session_, metrics, options_, inputs);
    last_ = metrics;
    if (options_.on_step) options_.on_step(metrics);
    if (options_.learning_rate)
      if (const auto rate = options_.learning_rate(metrics)) set_learning_rate(session_, *rate);
    const bool is_last = stops || metrics.out_of_patience || step == options_.steps;
    care_for_checkpoints(step, is_last);
    return !is_last;
  }

  // Returns true if nothing uses the states between this step and the next.
  bool runs_ahead(int64_t step) const {
    const bool saves = writer_ && is_saved(step), scales_loss = !std::isnan(last_.loss_scale);
    return options_.run_ahead && !options_.learning_rate && stop_ == Stop::kNo && step > first_ + 1 &&
           step < options_.steps && !is_evaluated(step) && !saves && !scales_loss;
  }

  // Starts the next step. If this fails, the next step reports the error.
  void start_next(Prefetcher& batches) {
    next_.emplace();
    try {
      next_->inputs = batches.next();
      session_.stage(options_.entry, next_->inputs);
      session_.start(options_.entry, next_->inputs);
    } catch (const Error&) {
      next_->failure = std::current_exception();
    }
  }

  NamedTensors take_next() {
    if (next_->failure) std::rethrow_exception(next_->failure);
    return std::move(next_->inputs);
  }

  // Returns true if a checkpoint is due after this step; the last step always has one too.
  bool is_saved(int64_t step) const {
    return options_.checkpoint_every > 0 && step % options_.checkpoint_every == 0;
  }

  bool is_evaluated(int64_t step) const {
    const int64_t every = options_.evaluate_every;
    return evaluator_ && (step == options_.steps || (every > 0 && step % every == 0));
  }

  void evaluate(TrainMetrics& metrics) {
    const Evaluation evaluation = evaluator_->run();
    metrics.evaluation_loss = evaluation.loss;
    metrics.evaluation_outputs = evaluation.outputs;
    metrics.is_best = evaluation.since_best == 0;
    metrics.out_of_patience = options_.patience > 0 && evaluation.since_best >= options_.patience;
    if (!metrics.is_best || !writer_) return;
    const std::filesystem::path best = options_.checkpoint / kBestModel;
    if (session_.shares_states())
      save_together(session_, best, options_.run_id, LinkAtName::kReplaced);
    else if (options_.is_first_rank)
      save_model(*snapshot(session_), best, {.link = LinkAtName::kReplaced});
  }

  void care_for_checkpoints(int64_t step, bool is_last) {
    const int64_t every = options_.checkpoint_every;
    const bool is_due = is_last || is_saved(step);
    if (!writer_) return;
    if (step == first_ + 1 && !is_last && every > 0 && (step + every - 1) / every * every < options_.steps)
      writer_->prepare();
    writer_->check();
    if (is_due) stall_ = writer_->begin(step);
    if (!is_last) return;
    writer_->finish();
    last_.checkpoint = writer_->newest();
  }

  // Describes the step that failed and the newest checkpoint.
  std::string where_it_failed(int64_t step) {
    std::string where = fmt::format("at step {} of {}", step, options_.steps);
    if (!writer_ || !options_.is_first_rank) return where;
    writer_->settle();
    const std::filesystem::path newest = writer_->newest();
    return where + (newest.empty() ? "; this run had not written a checkpoint yet"
                                   : "; its newest checkpoint is " + newest.string());
  }

  // A step that was started before the previous one was finished.
  struct Next {
    NamedTensors inputs;
    std::exception_ptr failure;
  };

  Session& session_;
  BatchSource& source_;
  const TrainerOptions& options_;
  const int64_t first_;
  std::shared_ptr<const CheckpointLock> lock_;
  std::optional<CheckpointWriter> writer_;
  std::optional<Evaluator> evaluator_;
  SpeedMeter speed_;
  Clock::time_point start_;
  std::optional<Next> next_;
  Stop stop_ = Stop::kNo;  // the latest request
  double stall_ = 0;       // seconds for the checkpoint after the latest step
  TrainMetrics last_;
};

}  // namespace

TrainMetrics train(Session& session, BatchSource& source, const TrainerOptions& options) {
  const int64_t first = steps_done(session.model());
  check_options(options);
  if (first >= options.steps) return {.step = first, .loss = std::nan("")};
  return TrainingRun(session, source, options, first).run();
}

}  // namespace genesis
