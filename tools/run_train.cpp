// genesis-run train: the training loop with a progress bar, metrics and checkpoints.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <iostream>

#include "executor/checkpoint.h"
#include "executor/trainer.h"
#include "models/data/sources.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/text.h"
#include "tools/progress.h"
#include "tools/run_commands.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file, output, checkpoint, metrics;
  std::vector<std::string> data;
  int64_t steps = 100, checkpoint_every = 0, keep = 2, max_skipped = TrainerOptions{}.max_skipped_steps;
  double minutes = 0;
  bool resume = false, quiet = false;
  data::SourceOptions source;
  RunFlags run;
  Output out;
};

volatile std::sig_atomic_t interrupted = 0;

std::string train_step_text(const Model& model) {
  const Graph* entry = model.find_entry("train_step");
  return entry ? to_text(*entry) : "";
}

std::string data_order(const data::SourceOptions& options) {
  return fmt::format("--batch {} --seq {} --seed {}{}", options.batch_size, options.sequence_length,
                     options.seed, options.shuffle ? "" : " --no-shuffle");
}

// A checkpoint brings its own graph.
std::shared_ptr<Model> resume(const Flags& flags, const Checkpoint& checkpoint) {
  std::shared_ptr<Model> model = load_checkpoint(checkpoint);
  const auto order = model->metadata.find(kDataOrderKey);
  if (order != model->metadata.end() && order->second != data_order(flags.source))
    spdlog::warn(
        "the checkpoint {} took its data with {}, this run does with {}: it will not be the run that goes on",
        checkpoint.path.string(), order->second, data_order(flags.source));
  if (train_step_text(*model) != train_step_text(*load_model(flags.file)))
    spdlog::warn(
        "the checkpoint {} was made with another model or other training options than {}: going on with "
        "those of the checkpoint",
        checkpoint.path.string(), flags.file);
  return model;
}

std::shared_ptr<Model> load(const Flags& flags) {
  if (flags.resume) {
    if (flags.checkpoint.empty()) throw CLI::RequiredError("--resume needs --checkpoint DIR, which");
    if (const auto checkpoint = find_checkpoint(flags.checkpoint)) return resume(flags, *checkpoint);
  } else if (!flags.checkpoint.empty() && find_checkpoint(flags.checkpoint)) {
    fail("{} holds checkpoints already: go on from them with --resume, or name another folder",
         flags.checkpoint);
  }
  return load_model(flags.file, {.verify = Verify::kFull});  // every weight is read anyway
}

void check_trainable(const Model& model, const std::string& file) {
  if (!model.find_entry("train_step"))
    fail("{} has no entry point 'train_step': add training with `genesis-opt {} --train adamw -o FILE`", file,
         file);
}

// Whether the wall clock is used up, or someone asked to stop (Ctrl-C, a shutdown).
class StopWhen {
 public:
  explicit StopWhen(double minutes) : minutes_(minutes), start_(std::chrono::steady_clock::now()) {}
  bool operator()() const {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    return interrupted || (minutes_ > 0 && elapsed >= minutes_ * 60);
  }

 private:
  double minutes_;
  std::chrono::steady_clock::time_point start_;
};

bool has_input(const Graph& graph, std::string_view name) {
  for (ValueId id : graph.inputs())
    if (graph.value(id).name == name) return true;
  return false;
}

TrainMetrics run(const Flags& flags, Session& session, BatchSource& source) {
  Progress progress(steps_done(session.model()), flags.steps, flags.quiet);
  const char* unit = has_input(session.model().entry("train_step"), "tokens") ? "tok/s" : "samples/s";
  TrainerOptions options;
  options.steps = flags.steps;
  options.checkpoint = flags.checkpoint;
  options.checkpoint_every = flags.checkpoint_every;
  options.keep_checkpoints = static_cast<int>(flags.keep);
  options.max_skipped_steps = flags.max_skipped;
  options.metrics = flags.metrics;
  options.should_stop = StopWhen(flags.minutes);
  options.on_step = [&](const TrainMetrics& m) {
    progress.update(m.step, fmt::format("loss {:.4f}  {} {}", m.loss, human_count(m.items_per_second), unit));
  };
  return train(session, source, options);
}

// Numbers in JSON lines become what the model takes.
data::SourceOptions source_options(const Flags& flags, const Graph& train_step) {
  data::SourceOptions options = flags.source;
  for (ValueId id : train_step.inputs())
    options.dtypes.emplace(train_step.value(id).name, train_step.type(id).dtype);
  return options;
}

void print_result(const Flags& flags, const TrainMetrics& last) {
  if (std::isnan(last.loss))
    std::cout << fmt::format("step {}: nothing to do, --steps is {}\n", last.step, flags.steps);
  else
    std::cout << fmt::format("step {}: loss {:.4f} after {}\n", last.step, last.loss,
                             human_seconds(last.seconds));
  if (!flags.output.empty()) std::cout << "saved " << flags.output << "\n";
}

void check_numbers(const Flags& flags) {
  if (flags.keep < 1) fail("--keep {}: expected 1 or more", flags.keep);
  if (flags.checkpoint_every < 0) fail("--checkpoint-every {}: expected 0 or more", flags.checkpoint_every);
  if (flags.steps < 0) fail("--steps {}: expected 0 or more", flags.steps);
  if (!(flags.minutes >= 0)) fail("--minutes {}: expected 0 or more", flags.minutes);
  if (flags.checkpoint_every > 0 && flags.checkpoint.empty())
    throw CLI::RequiredError("--checkpoint-every needs --checkpoint DIR, which");
}

void train_command(const Flags& flags) {
  check_numbers(flags);
  check_can_write(flags.output);
  check_can_write(flags.metrics);
  const std::shared_ptr<Model> model = load(flags);
  check_trainable(*model, flags.file);
  model->metadata[kDataOrderKey] = data_order(flags.source);
  Session session(model, flags.run.session_options());
  const auto source = data::open_source(flags.data, source_options(flags, model->entry("train_step")));
  for (const int number : {SIGINT, SIGTERM})
    std::signal(number, [](int) {
      if (interrupted) _exit(130);  // the second time it is meant
      interrupted = 1;
    });
  const TrainMetrics last = run(flags, session, *source);
  if (!flags.output.empty()) save_model(*snapshot(session), flags.output);
  const MemoryStatistics memory = session.memory();
  flags.out.print({{"step", last.step},
                   {"loss", last.loss},
                   {"seconds", last.seconds},
                   {"items_per_second", last.items_per_second},
                   {"output", flags.output},
                   {"arena_bytes", memory.arena_bytes},
                   {"state_bytes", memory.state_bytes}},
                  [&] { print_result(flags, last); });
}

}  // namespace

void add_train(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("train", "train a model that has an entry point train_step");
  command->add_option("file", flags->file, "a .genesis file (made by genesis-opt --train)")->required();
  command
      ->add_option("--data", flags->data,
                   "FILE.txt, FILE.jsonl, FILE.safetensors or NAME=FILE.npy; may be given again")
      ->required()
      ->take_all();
  command->add_option("--steps", flags->steps, "steps in total, those before a resume included")
      ->capture_default_str();
  command->add_option("--minutes", flags->minutes, "stop after this much time; 0: never")
      ->capture_default_str();
  command->add_option("--batch", flags->source.batch_size, "samples per step")->capture_default_str();
  command->add_option("--seq", flags->source.sequence_length, "tokens per sample, for text")
      ->capture_default_str();
  command->add_option("--seed", flags->source.seed, "of the order of the data")->capture_default_str();
  command->add_flag("!--no-shuffle", flags->source.shuffle, "take the data in its own order");
  command->add_option("-o,--output", flags->output, "write the trained model here");
  command->add_option("--checkpoint", flags->checkpoint, "folder for checkpoints");
  command
      ->add_option("--checkpoint-every", flags->checkpoint_every,
                   "steps between checkpoints; 0: one at the end")
      ->capture_default_str();
  command->add_option("--keep", flags->keep, "checkpoints to keep")->capture_default_str();
  command
      ->add_option("--max-skipped", flags->max_skipped,
                   "f16: stop with the node to blame after so many steps in a row whose gradients overflowed")
      ->capture_default_str();
  command->add_flag("--resume", flags->resume, "go on from the newest checkpoint, or start if there is none");
  command->add_option("--metrics", flags->metrics,
                      "write a JSON object a step to this file; a resumed run goes on with it");
  command->add_flag("--quiet", flags->quiet, "no progress bar");
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run train train.genesis --data text.txt --batch 8 --seq 256 --steps 500 "
      "--checkpoint run --resume");
  command->callback([flags] { train_command(*flags); });
}

}  // namespace genesis::tools
