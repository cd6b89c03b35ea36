// genesis-run train: a training job with a progress bar, which signals stop.
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

#include "executor/inputs.h"
#include "executor/inspector.h"
#include "executor/training/checkpoint.h"
#include "executor/training/utilization.h"
#include "schema/messages/log.h"
#include "tools/common/file_progress.h"
#include "tools/common/printable.h"
#include "tools/common/progress.h"
#include "tools/common/ranks.h"
#include "tools/common/stop_signals.h"
#include "tools/common/usage.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/run/train_flags.h"

namespace genesis::tools {
namespace {

using jobs::TrainEnd;
using jobs::TrainResult;

// Measures the device, which takes a second or two, only if a terminal shows the result or --mfu asks for it.
std::optional<Utilization> utilization_of(const TrainFlags& flags, jobs::Training& training) {
  if (!flags.mfu && (flags.job.quiet || !isatty(STDERR_FILENO))) return std::nullopt;
  return Utilization(training.session(), "train_step", training.data().batch(0));
}

std::string progress_text(const TrainMetrics& m, double evaluation_loss, const char* unit, double mfu) {
  const std::string evaluation =
      std::isnan(evaluation_loss) ? "" : fmt::format("evaluation {:.4f}  ", evaluation_loss);
  std::string outputs;
  for (const auto& [name, number] : m.outputs) outputs += fmt::format("{} {:.4g}  ", printable(name), number);
  return fmt::format("loss {:.4f}  {}{}{} {}{}", m.loss, outputs, evaluation, human_count(m.items_per_second),
                     unit, std::isnan(mfu) ? "" : fmt::format("  MFU {:.0f}%", 100 * mfu));
}

// Trains with a progress bar.
TrainResult run(const TrainFlags& flags, jobs::Training& training) {
  Progress progress(steps_done(training.model()), flags.job.steps, training.job().quiet);
  const char* unit = has_input(training.model().entry("train_step"), "tokens") ? "tok/s" : "samples/s";
  const auto utilization = utilization_of(flags, training);
  const auto items = static_cast<double>(training.data().items_per_batch());
  double evaluation_loss = std::nan("");
  training.job().on_step = [&](const TrainMetrics& m) {
    if (!std::isnan(m.evaluation_loss)) evaluation_loss = m.evaluation_loss;
    const double mfu = utilization ? utilization->share(items / m.items_per_second) : std::nan("");
    progress.update(m.step, progress_text(m, evaluation_loss, unit, mfu));
  };
  return training.run();
}

// Returns ", saved as A and B", naming the files that this run has written.
std::string saved_as(const TrainFlags& flags, const TrainResult& result) {
  std::vector<std::string> files;
  if (!result.last.checkpoint.empty()) files.push_back(result.last.checkpoint.string());
  if (!flags.job.output.empty()) files.push_back(flags.job.output);
  return files.empty() ? ", nothing is kept: neither --checkpoint nor -o was given"
                       : fmt::format(", saved as {}", fmt::join(files, " and "));
}

void print_result(const TrainFlags& flags, const TrainResult& result) {
  const jobs::TrainJob& job = flags.job;
  const TrainMetrics& last = result.last;
  const auto say_stopped = [&](const std::string& why) {
    std::cout << fmt::format("stopped at step {} of {} since {}{}\n", last.step, job.steps, why,
                             saved_as(flags, result));
  };
  if (result.end == TrainEnd::kTimeUp) say_stopped(fmt::format("the {} minutes are over", job.minutes));
  if (result.end == TrainEnd::kOutOfPatience)
    say_stopped(fmt::format("{} evaluations were not better", job.patience));
  if (std::isnan(last.loss))
    std::cout << fmt::format("step {}: nothing to do, --steps is {}\n", last.step, job.steps);
  else
    std::cout << fmt::format("step {}: loss {:.4f} after {}\n", last.step, last.loss,
                             human_seconds(last.seconds));
  if (!job.output.empty()) std::cout << "saved " << job.output << "\n";
}

// Exits with an error code, so that neither people nor scripts take an interruption for the end of the run. All ranks
// leave together: mpirun kills the others soon after the first one that ends with an error code.
[[noreturn]] void leave_interrupted(const TrainFlags& flags, const TrainResult& result, World& world) {
  std::cout.flush();
  if (world.is_first())
    std::cerr << fmt::format("genesis-run: interrupted at step {} of {}{}\n", result.last.step,
                             flags.job.steps, saved_as(flags, result));
  world.barrier();
  throw ExitCode(128 + result.asked);
}

std::string name_of_end(const TrainResult& result) {
  switch (result.end) {
    case TrainEnd::kAsked:
      return signal_name(result.asked);
    case TrainEnd::kTimeUp:
      return "minutes";
    case TrainEnd::kOutOfPatience:
      return "patience";
    case TrainEnd::kAllSteps:
      break;
  }
  return "";
}

nlohmann::ordered_json summary(const TrainFlags& flags, const TrainResult& result,
                               const MemoryStatistics& memory) {
  const TrainMetrics& last = result.last;
  nlohmann::ordered_json json{{"step", last.step},
                              {"steps", flags.job.steps},
                              {"stopped", name_of_end(result)},
                              {"loss", last.loss},
                              {"seconds", last.seconds},
                              {"items_per_second", last.items_per_second},
                              {"output", flags.job.output},
                              {"checkpoint", last.checkpoint.string()},
                              {"checkpoint_stall_seconds", result.longest_stall},
                              {"arena_bytes", memory.arena_bytes},
                              {"state_bytes", memory.state_bytes}};
  if (memory.device_peak_bytes > 0) json["device_peak_bytes"] = memory.device_peak_bytes;
  if (!last.outputs.empty()) json["outputs"] = last.outputs;
  if (std::isnan(result.evaluation_loss)) return json;
  json["evaluation_loss"] = result.evaluation_loss;
  if (!result.evaluation_outputs.empty()) json["evaluation_outputs"] = result.evaluation_outputs;
  if (result.best_step > 0)
    json["best"] = {{"step", result.best_step}, {"evaluation_loss", result.best_loss}};
  return json;
}

void train_ranks(const TrainFlags& flags, const Command& command, const std::shared_ptr<World>& world) {
  jobs::TrainJob job = flags.job;
  job.session = flags.run.session_options();
  job.session.zero = flags.job.session.zero;
  jobs::Training training(job, world);
  flags.check_useful(command, training.model());
  {
    FileProgress progress(training.job().quiet);
    training.job().progress = progress.hook();
    training.open();
  }
  if (world->is_first()) warn_of_useless_zero(flags.mesh, flags.job.session.zero);
  const StopSignals signals(world->is_first());
  training.job().should_stop = [&] { return signals.received(); };
  TrainResult result;
  with_nonfinite_page(flags.run, training.file(), training.session(), [&] { result = run(flags, training); });
  training.save(result);
  if (world->is_first())
    flags.out.print(summary(flags, result, Inspector(training.session()).memory()), [&] {
      if (result.asked == 0) print_result(flags, result);
    });
  if (result.asked != 0) leave_interrupted(flags, result, *world);
}

void train_command(TrainFlags& flags, const Command& command) {
  jobs::check_job(flags.job);
  run_ranks(flags.mesh, flags.run, SharedWork::kBatches,
            [&](const auto& world) { train_ranks(flags, command, world); });
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
