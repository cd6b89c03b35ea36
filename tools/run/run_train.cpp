// genesis-run train: the training loop with a progress bar, metrics and checkpoints.
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>

#include "executor/distributed/traffic.h"
#include "executor/inputs.h"
#include "executor/training/checkpoint.h"
#include "executor/training/checkpoint_shards.h"
#include "executor/training/rank_share.h"
#include "executor/training/trainer.h"
#include "passes/lora/lora.h"
#include "passes/training/evaluation.h"
#include "passes/training/plateau.h"
#include "passes/training/train_step.h"
#include "schema/file/reader.h"
#include "schema/graph/text.h"
#include "schema/messages/log.h"
#include "schema/version.h"
#include "tools/checks/quantized_training.h"
#include "tools/checks/trainable.h"
#include "tools/checks/writable.h"
#include "tools/common/numbers.h"
#include "tools/common/open_model.h"
#include "tools/common/printable.h"
#include "tools/common/progress.h"
#include "tools/common/ranks.h"
#include "tools/common/stop_signals.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/run/shared_folder.h"
#include "tools/run/train_data.h"
#include "tools/run/train_flags.h"
#include "tools/run/utilization.h"
#include "tools/text/conversation_files.h"

namespace genesis::tools {
namespace {

std::string train_step_text(const Model& model) {
  const Graph* entry = model.find_entry("train_step");
  return entry ? to_text(*entry) : "";
}

// Loads the file and, if the flags ask for it, makes it ready for training.
std::shared_ptr<Model> load_prepared(const TrainFlags& flags, const LoadOptions& options = {}) {
  std::shared_ptr<Model> model = load_model(flags.file, options);
  // Reads the adapters here, so that an error in their description names the file.
  with_context([&] { passes::lora_of(*model); }, [&] { return flags.file; });
  if (flags.begins_training()) check_has_loss({*model, flags.file}, "loss");
  if (flags.begins_training() && model->find_entry("train_step")) model = to_train_anew(*model);
  if (flags.lora.rank > 0) passes::add_lora(*model, flags.lora);
  if (flags.begins_training()) {
    const bool packs = model->find_entry("loss_packed") && !conversation_files(flags.data).empty();
    const passes::TrainOptions standard{.entry = packs ? "loss_packed" : "loss"};
    check_quantized_training(*model);
    passes::add_training(*model, passes::parse_train_options(flags.optimizer, standard));
  }
  return model;
}

// A model and a digest of it, by which ranks check that they have the same one.
struct Loaded {
  std::shared_ptr<Model> model;
  std::string digest;
};

// Loads a checkpoint with its own graph. The first rank has verified it. The hash of its graph section, which
// contains the hashes of all its values, shows if another rank sees the same checkpoint.
Loaded resume(const TrainFlags& flags, const Checkpoint& checkpoint) {
  Loaded loaded{load_model(checkpoint.path), inspect_file(checkpoint.path).hash};
  const auto named = load_prepared(flags);
  check_goes_on({*loaded.model, checkpoint.path.string()}, {*named, flags.file});
  if (train_step_text(*loaded.model) != train_step_text(*named))
    log_warning(
        "the checkpoint {} was made with other training options than {}: going on with those of the "
        "checkpoint",
        checkpoint.path.string(), flags.file);
  return loaded;
}

// Returns on all ranks the checkpoint that the first rank has found.
std::optional<Checkpoint> checkpoint_to_resume(const TrainFlags& flags, World& world) {
  std::optional<Checkpoint> found;
  if (world.is_first()) found = find_checkpoint(flags.checkpoint);
  const std::string path = world.gather(found ? found->path.string() : "")[0];
  return path.empty() ? std::nullopt : std::optional(Checkpoint{path});
}

// Loads the model. Sets `flags.file` to the file itself if it names a folder: the checkpoint that the first rank
// finds there.
Loaded load(TrainFlags& flags, World& world) {
  if (!flags.resume && !flags.checkpoint.empty() && has_checkpoints(flags.checkpoint))
    fail("{} holds checkpoints already: go on from them with --resume, or name another folder",
         flags.checkpoint);
  const std::string named = flags.file;
  flags.file = model_file_of_first(world, named);
  if (flags.resume)
    if (const auto checkpoint = checkpoint_to_resume(flags, world)) return resume(flags, *checkpoint);
  if (world.is_first() && flags.file != named)
    log_info(
        "{}: {} its newest checkpoint, {}", named,
        flags.begins_training() ? "another training begins with the weights of" : "the training goes on from",
        flags.file);
  Loaded loaded{load_prepared(flags, {.verify = Verify::kFull}), ""};  // every weight is read anyway
  if (world.size() > 1) loaded.digest = digest_of_states(*loaded.model);
  return loaded;
}

// Refuses --steps below the steps already done: the result would be a model with more steps.
void check_steps(const Model& model, const TrainFlags& flags) {
  const int64_t done = steps_done(model);
  if (done > flags.steps)
    fail(
        "--steps {}: {} steps are done already, and --steps counts those before a resume too: give {} or "
        "more",
        flags.steps, done, done);
}

struct Sources {
  std::unique_ptr<BatchSource> training, evaluation;
};

// Observations made during the run; NaN: none.
struct Seen {
  StopVote stop;  // the reason why all ranks stopped
  double longest_stall = 0, evaluation_loss = std::nan(""), best_loss = std::nan("");
  std::map<std::string, double> evaluation_outputs;  // results of the latest evaluation
  int64_t best_step = 0;
  int64_t rates_of_zero = 0;  // steps with a learning rate of 0 since the run began; -1: ended
};

// Warns of a learning rate that stays 0. A warm-up has rate 0 in its first step only.
void warn_of_rate(const TrainMetrics& step, const TrainFlags& flags, Seen& seen) {
  if (seen.rates_of_zero < 0 || step.skipped_steps > 0) return;
  seen.rates_of_zero = step.learning_rate == 0 ? seen.rates_of_zero + 1 : -1;
  if (seen.rates_of_zero != 2) return;
  if (flags.begins_training() && step.step == 2)
    return log_warning(
        "the learning rate is 0 from the first step on, so nothing is learnt: give --optimizer NAME,lr=RATE");
  log_warning(
      "the learning rate is 0, so nothing is learnt: the schedule of the training that {} brings has come "
      "to its end; --optimizer NAME,lr=RATE begins another training with these weights",
      flags.file);
}

// Measures the device, which takes a second or two, only if a terminal shows the result or --mfu asks for it.
std::optional<Utilization> utilization_of(const TrainFlags& flags, Session& session, BatchSource& source) {
  if (!flags.mfu && (flags.quiet || !isatty(STDERR_FILENO))) return std::nullopt;
  return Utilization(session, "train_step", source.batch(0));
}

std::string progress_text(const TrainMetrics& m, double evaluation_loss, const char* unit, double mfu) {
  const std::string evaluation =
      std::isnan(evaluation_loss) ? "" : fmt::format("evaluation {:.4f}  ", evaluation_loss);
  std::string outputs;
  for (const auto& [name, number] : m.outputs) outputs += fmt::format("{} {:.4g}  ", printable(name), number);
  return fmt::format("loss {:.4f}  {}{}{} {}{}", m.loss, outputs, evaluation, human_count(m.items_per_second),
                     unit, std::isnan(mfu) ? "" : fmt::format("  MFU {:.0f}%", 100 * mfu));
}

// Returns a name that is unique to the run and the same on all its ranks.
std::string name_of_run(World& world) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return world.gather(fmt::format("{} {} {}", world.host(), ::getpid(), since_1970.count()))[0];
}

TrainMetrics run(const TrainFlags& flags, Session& session, Sources& sources, const StopSignals& signals,
                 std::shared_ptr<const CheckpointLock> lock, World& world, Seen& seen) {
  Progress progress(steps_done(session.model()), flags.steps, flags.quiet);
  const char* unit = has_input(session.model().entry("train_step"), "tokens") ? "tok/s" : "samples/s";
  const auto utilization = utilization_of(flags, session, *sources.training);
  const auto items = static_cast<double>(sources.training->items_per_batch());
  TrainerOptions options;
  options.steps = flags.steps;
  options.checkpoint = flags.checkpoint;
  options.is_first_rank = world.is_first();
  options.run_id = name_of_run(world);
  options.checkpoint_lock = std::move(lock);
  options.checkpoint_every = flags.checkpoint_every;
  options.keep_checkpoints = static_cast<int>(flags.keep);
  options.max_skipped_steps = flags.max_skipped;
  options.metrics = flags.metrics;
  options.tensorboard = flags.tensorboard;
  options.evaluation = sources.evaluation.get();
  options.evaluate_every = flags.evaluate_every;
  options.evaluation_batches = flags.evaluation_batches;
  options.patience = flags.patience;
  options.run_ahead = session.is_asynchronous();
  const StopWhen stop_here(flags.minutes, signals);
  StopVotes votes(world);
  options.should_stop = [&] {
    seen.stop = votes.after_step(stop_here.vote());
    if (seen.stop.signal != 0) return Stop::kSoon;  // a signal does not wait for an evaluation
    return seen.stop.time_up ? Stop::kInOrder : Stop::kNo;
  };
  options.on_step = [&](const TrainMetrics& m) {
    seen.longest_stall = std::max(seen.longest_stall, m.checkpoint_stall_seconds);
    if (!std::isnan(m.evaluation_loss))
      seen.evaluation_loss = m.evaluation_loss, seen.evaluation_outputs = m.evaluation_outputs;
    if (world.is_first()) warn_of_rate(m, flags, seen);
    if (m.is_best) seen.best_step = m.step, seen.best_loss = m.evaluation_loss;
    progress.update(
        m.step, progress_text(m, seen.evaluation_loss, unit,
                              utilization ? utilization->share(items / m.items_per_second) : std::nan("")));
  };
  return train(session, *sources.training, options);
}

// Returns the options of the data. Numbers in JSON lines get the dtypes of the model's inputs.
data::SourceOptions source_options(const TrainFlags& flags, const Graph& train_step) {
  data::SourceOptions options = flags.source;
  for (ValueId id : train_step.inputs())
    options.dtypes.emplace(train_step.value(id).name, train_step.type(id).dtype);
  return options;
}

// The end of a run and its cause.
struct RunEnd {
  TrainMetrics last;
  int signal = 0;                // signal that interrupted it; 0: none
  bool time_up = false;          // --minutes
  bool out_of_patience = false;  // --patience
};

RunEnd end_of(const TrainMetrics& last, const TrainFlags& flags, const StopVote& stop) {
  if (last.step >= flags.steps) return {last};  // a signal that came too late interrupted nothing
  if (last.out_of_patience) return {.last = last, .out_of_patience = true};
  return {last, stop.signal, stop.signal == 0};
}

// Returns ", saved as A and B", naming the files that this run has written.
std::string saved_as(const TrainFlags& flags, const RunEnd& end) {
  std::vector<std::string> files;
  if (!end.last.checkpoint.empty()) files.push_back(end.last.checkpoint.string());
  if (!flags.output.empty()) files.push_back(flags.output);
  return files.empty() ? ", nothing is kept: neither --checkpoint nor -o was given"
                       : fmt::format(", saved as {}", fmt::join(files, " and "));
}

void print_result(const TrainFlags& flags, const RunEnd& end) {
  const TrainMetrics& last = end.last;
  if (end.time_up)
    std::cout << fmt::format("stopped at step {} of {} since the {} minutes are over{}\n", last.step,
                             flags.steps, flags.minutes, saved_as(flags, end));
  if (end.out_of_patience)
    std::cout << fmt::format("stopped at step {} of {} since {} evaluations were not better{}\n", last.step,
                             flags.steps, flags.patience, saved_as(flags, end));
  if (std::isnan(last.loss))
    std::cout << fmt::format("step {}: nothing to do, --steps is {}\n", last.step, flags.steps);
  else
    std::cout << fmt::format("step {}: loss {:.4f} after {}\n", last.step, last.loss,
                             human_seconds(last.seconds));
  if (!flags.output.empty()) std::cout << "saved " << flags.output << "\n";
}

// Exits with an error code, so that neither people nor scripts take an interruption for the end of the run. All ranks
// leave together: mpirun kills the others soon after the first one that ends with an error code.
[[noreturn]] void leave_interrupted(const TrainFlags& flags, const RunEnd& end, World& world) {
  std::cout.flush();
  if (world.is_first())
    std::cerr << fmt::format("genesis-run: interrupted at step {} of {}{}\n", end.last.step, flags.steps,
                             saved_as(flags, end));
  world.barrier();
  throw ExitCode(128 + end.signal);
}

// Opens the data. Evaluation data is not shuffled, so that every evaluation sees the same samples.
Sources open_all_data(const TrainFlags& flags, const Model& model) {
  data::SourceOptions options = source_options(flags, model.entry("train_step"));
  TrainData data = with_context(
      [&] {
        return open_train_data(flags.data, model, flags.file, "train_step", options, flags.text, flags.quiet);
      },
      [] { return "in the data to train on"; });
  Sources sources{std::move(data.training), std::move(data.held_out)};
  if (flags.evaluation_data.empty()) return sources;
  options.shuffle = false;
  options.fill_last = true;
  TextFlags text = flags.text;
  text.held_out = 0;
  sources.evaluation = with_context(
      [&] {
        return open_train_data(flags.evaluation_data, model, flags.file, passes::kEvaluationEntry, options,
                               text, flags.quiet)
            .training;
      },
      [] { return "in the data of --eval-data"; });
  return sources;
}

// Opens this rank's share of every batch. Files of one name may differ between hosts, so the content is compared.
Sources open_sources(const TrainFlags& flags, Model& model, World& world) {
  Sources sources = open_all_data(flags, model);
  const std::string content = digest_of_data(*sources.training);
  if (world.size() > 1)
    world.require_same("the content of the data",
                       content + (sources.evaluation ? digest_of_data(*sources.evaluation) : ""));
  flags.remember_data(content, model);
  for (auto* source : {&sources.training, &sources.evaluation})
    if (*source) *source = share_of(std::move(*source), world.mesh(), world.rank());
  return sources;
}

void prepare_evaluation(const TrainFlags& flags, Model& model) {
  if (flags.evaluates()) return passes::add_evaluation(model);
  if (model.find_entry(optim::kPlateauEntry))
    fail(
        "the schedule '{}' of {} follows the loss of an evaluation: give --eval-data FILE and --eval-every "
        "STEPS",
        optim::PlateauLR::kName, flags.file);
}

nlohmann::ordered_json summary(const TrainFlags& flags, const RunEnd& end, const Seen& seen,
                               const MemoryStatistics& memory) {
  const TrainMetrics& last = end.last;
  nlohmann::ordered_json json{{"step", last.step},
                              {"steps", flags.steps},
                              {"stopped", end.signal            ? signal_name(end.signal)
                                          : end.time_up         ? "minutes"
                                          : end.out_of_patience ? "patience"
                                                                : ""},
                              {"loss", last.loss},
                              {"seconds", last.seconds},
                              {"items_per_second", last.items_per_second},
                              {"output", flags.output},
                              {"checkpoint", last.checkpoint.string()},
                              {"checkpoint_stall_seconds", seen.longest_stall},
                              {"arena_bytes", memory.arena_bytes},
                              {"state_bytes", memory.state_bytes}};
  if (memory.device_peak_bytes > 0) json["device_peak_bytes"] = memory.device_peak_bytes;
  if (!last.outputs.empty()) json["outputs"] = last.outputs;
  if (std::isnan(seen.evaluation_loss)) return json;
  json["evaluation_loss"] = seen.evaluation_loss;
  if (!seen.evaluation_outputs.empty()) json["evaluation_outputs"] = seen.evaluation_outputs;
  if (seen.best_step > 0) json["best"] = {{"step", seen.best_step}, {"evaluation_loss", seen.best_loss}};
  return json;
}

// All ranks call it. If they cannot write files side by side, the first rank gathers the shards and writes.
void write_output(const std::filesystem::path& file, Session& session, World& world) {
  if (session.shares_states() && all_see_folder_of(file, world))
    save_together(session, file, name_of_run(world));
  else if (world.is_first())
    session.save(file);
  else if (session.shares_states())
    session.take_part_in_gather();
}

// Writes the output. If that fails, as on a full disk, the error says whether a checkpoint keeps the work.
void save_output(const TrainFlags& flags, Session& session, World& world, const TrainMetrics& last) {
  with_context(
      [&] { write_output(flags.output, session, world); },
      [&] {
        const std::string done = fmt::format("training reached step {} of {}", last.step, flags.steps);
        if (flags.checkpoint.empty()) return done + ", and nothing else keeps it";
        return fmt::format("{}, which is kept in {}: the same command with --resume goes on from there", done,
                           flags.checkpoint);
      });
}

// Returns the flags of a rank. All ranks do the same work, but only the first keeps and shows results.
TrainFlags flags_of_rank(TrainFlags flags, const World& world) {
  if (world.is_first()) return flags;
  flags.quiet = true;
  for (std::string* file : {&flags.metrics, &flags.tensorboard}) file->clear();
  return flags;
}

// Ranks with different files or options would wait for each other forever, or learn nonsense.
void check_same(World& world, const TrainFlags& flags, const Model& model, const std::string& digest) {
  world.require_same("the training step", train_step_text(model));
  world.require_same("the data's order",
                     fmt::format("{} --data {}", flags.data_order(), fmt::join(flags.data, " ")));
  world.require_same("when to stop and evaluate",
                     fmt::format("--steps {} --eval-every {} --eval-batches {} --patience {}", flags.steps,
                                 flags.evaluate_every, flags.evaluation_batches, flags.patience));
  world.require_same(
      "what is shared and kept",
      fmt::format("--zero {} --checkpoint '{}' --checkpoint-every {}{}", flags.zero, flags.checkpoint,
                  flags.checkpoint_every, flags.output.empty() ? "" : " -o"));
  world.require_same("how plans are made",
                     fmt::format("--disable '{}' --memory-budget '{}'{}{}", fmt::join(flags.run.disable, ","),
                                 flags.run.memory.budget, flags.run.memory.remat ? " --remat" : "",
                                 flags.run.no_optimize ? " --no-optimize" : ""));
  world.require_same("the content of the model file", digest);
}

// Ranks whose plans differ, as those of different builds may, would wait for collectives that others never call.
void check_exchanges(World& world, Session& session, BatchSource& source) {
  if (world.size() == 1) return;
  const Plan plan = session.plan("train_step", source.batch(0));
  for (const MeshAxis& axis : world.mesh().axes())
    world.require_same(fmt::format("what the training step exchanges along '{}'", axis.name),
                       exchanges_along(axis.name, plan), axis.name);
}

// Checks the start before anything is read. All ranks see the first one's lock, and so also the files of the others.
void check_start(World& world, const TrainFlags& flags) {
  world.require_same("the version of Genesis", std::string(kVersion));
  std::string folder = flags.resume ? "--resume " : "";
  if (!flags.checkpoint.empty() && world.size() > 1)
    folder += fmt::format("--checkpoint {} of {}", flags.checkpoint, CheckpointLock::owner(flags.checkpoint));
  world.require_same("the folder of checkpoints, which all ranks must share,", folder);
}

void train_ranks(TrainFlags flags, const Command& command, const std::shared_ptr<World>& world) {
  if (world->is_first()) check_can_write(flags.output);
  check_can_append(flags.metrics);
  check_can_make_folder(flags.tensorboard);
  std::shared_ptr<const CheckpointLock> lock;  // taken before the folder is read
  if (!flags.checkpoint.empty() && world->is_first())
    lock = std::make_shared<CheckpointLock>(flags.checkpoint);
  check_start(*world, flags);
  const auto [model, digest] = load(flags, *world);
  check_trainable({*model, flags.file});
  flags.check_useful(command, *model);
  check_steps(*model, flags);
  prepare_evaluation(flags, *model);
  if (world->size() > 1) check_same(*world, flags, *model, digest);
  Sources sources = open_sources(flags, *model, *world);
  SessionOptions options = session_options(flags.run, world);
  options.zero = flags.zero;
  Session session(model, options);
  if (world->is_first()) warn_of_useless_zero(flags.mesh, flags.zero);
  if (world->is_first()) flags.warn_of_what_will_be_lost(*model);
  check_exchanges(*world, session, *sources.training);
  const StopSignals signals(world->is_first());
  Seen seen;
  TrainMetrics last;
  with_nonfinite_page(flags.run, flags.file, session,
                      [&] { last = run(flags, session, sources, signals, lock, *world, seen); });
  if (!flags.output.empty()) save_output(flags, session, *world, last);
  const RunEnd end = end_of(last, flags, seen.stop);
  if (world->is_first())
    flags.out.print(summary(flags, end, seen, session.memory()), [&] {
      if (end.signal == 0) print_result(flags, end);
    });
  if (end.signal != 0) leave_interrupted(flags, end, *world);
}

void train_command(const TrainFlags& flags, const Command& command) {
  flags.check_needs();
  flags.check_files();
  const std::shared_ptr<World> world = join_ranks(flags.mesh, flags.run.device);
  as_rank(*world, [&] { train_ranks(flags_of_rank(flags, *world), command, world); });
}

}  // namespace

void add_train(Command& app) {
  auto flags = std::make_shared<TrainFlags>();
  Command* command = app.add_subcommand("train", "train a model that has an entry point train_step");
  flags->add_to(*command);
  command->footer(
      "Example:\n  genesis-run train train.genesis --data text.txt --batch 8 --seq 256 --steps 500 "
      "--checkpoint run --resume\n"
      "Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end a run after its step, with a checkpoint and the output "
      "written, without another evaluation, "
      "and exit code 130, 143, 129 or 138; a second of them, but for SIGHUP, ends it at once. One run at a "
      "time "
      "writes to a folder of checkpoints.");
  command->callback([flags, command] { train_command(*flags, *command); });
}

}  // namespace genesis::tools
