#include "tools/run/train_flags.h"

#include <fmt/ranges.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

#include "executor/inputs.h"
#include "executor/training/checkpoint.h"
#include "executor/training/metrics_file.h"
#include "models/corpus/text_files.h"
#include "passes/training/train_options.h"
#include "schema/file/io/file_ending.h"
#include "schema/messages/log.h"
#include "tools/checks/replaced_files.h"
#include "tools/common/numbers.h"
#include "tools/common/open_model.h"
#include "tools/common/option_values.h"
#include "tools/common/ranks.h"
#include "tools/common/usage.h"

namespace genesis::tools {
namespace {

namespace fs = std::filesystem;

// Throws Error if the output would overwrite data that is read. `name` is FILE, NAME=FILE or a folder of text.
void check_is_not_data(const char* option, const std::string& output, const std::string& name) {
  std::error_code error;  // ignored: a file that is missing is not the same file
  std::vector<fs::path> files{fs::exists(name, error) ? name : name.substr(name.find('=') + 1)};
  if (fs::is_directory(name, error)) files = corpus::text_files({name});
  for (const fs::path& file : files) check_is_not_read(option, output, file, "of the data");
}

// Returns the approximate size of a model file: all states but caches.
uint64_t file_bytes(const Model& model) {
  uint64_t bytes = 0;
  for (const State& state : model.states())
    if (state.role != StateRole::kCache) bytes += static_cast<uint64_t>(state.type.bytes());
  return bytes;
}

// Warns of a disk without enough room. This is no error, since the disk may have room again by the end.
void warn_of_full_disk(const std::string& path, const std::filesystem::path& folder, uint64_t needed) {
  struct statvfs disk;
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return;
  const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (free < needed)
    log_warning("{} will need {} and its disk has {} left: make room before the run ends", path,
                human_bytes(needed), human_bytes(free));
}

}  // namespace

void TrainFlags::add_to(Command& command) {
  add_data(command);
  text.add_to(command);
  add_keeping(command);
  add_training(command);
  add_evaluation(command);
  run.add_to(command);
  Option* with_mesh = add_mesh(
      command, mesh,
      "the ranks that train together: data=N shares each batch between N of them; started by mpirun or srun "
      "with MPI, on GPUs also by srun without or torchrun's variables, else by this command on this host");
  add_zero(command, with_mesh, zero);
  out.add_to(command);
}

void TrainFlags::add_data(Command& command) {
  command
      .add_option(
          "file", file,
          kModelName +
              std::string(", whose training continues; with --optimizer or --lora, a new training begins"))
      ->required();
  command
      .add_option("--data", data,
                  "FILE.txt, FILE.jsonl (or .ndjson), a folder of them, FILE.safetensors or NAME=FILE.npy; "
                  "may be given again")
      ->required()
      ->take_all();
  add_number(command, "--steps", steps, "steps in total, those before a resume included",
             at_least<int64_t>(0));
  add_number(command, "--minutes", minutes,
             "stop after this much time, with the evaluation of a last step and exit code 0; 0: never",
             at_least<double>(0));
  add_number(command, "--batch", source.batch_size, "samples per step, of all ranks together",
             at_least<int64_t>(1));
  add_number(command, "--seq", source.sequence_length, "tokens per sample, for text", at_least<int64_t>(1));
  add_number(command, "--seed", source.seed, "seed of the order of the data");
  command.add_flag("!--no-shuffle", source.shuffle, "take the data in its own order");
}

// Adds the options about results: what is kept and shown.
void TrainFlags::add_keeping(Command& command) {
  command.add_option("-o,--output", output, "write the trained model here");
  command.add_option("--checkpoint", checkpoint, "folder for checkpoints");
  add_number(command, "--checkpoint-every", checkpoint_every, "steps between checkpoints; 0: one at the end",
             at_least<int64_t>(0));
  add_number(command, "--keep", keep, "checkpoints to keep", Range<int64_t>{1, 1000000})
      ->needs("--checkpoint");
  add_number(
      command, "--max-skipped", max_skipped,
      "f16: stop after this many steps in a row whose gradients overflowed, and name the node to blame",
      at_least<int64_t>(1));
  command.add_flag("--resume", resume, "continue from the newest checkpoint, or start if there is none");
  command.add_option("--metrics", metrics,
                     "write one JSON object per step to this file; a resumed run appends to it");
  command.add_option("--tensorboard", tensorboard, "write TensorBoard's event files to this folder");
  command.add_flag("--quiet", quiet, "no progress bar");
  command.add_flag("--mfu", mfu,
                   "print the share of the device's speed of products that a step reaches, as on a terminal; "
                   "measured at the start");
}

void TrainFlags::add_training(Command& command) {
  command.add_option("--optimizer", optimizer,
                     "begin a new training, as genesis-opt --train does, instead of continuing one in the "
                     "file: OPTIMIZER,key=value,...; default with --lora: adamw");
  Option* with_lora =
      add_number(command, "--lora", lora.rank,
                 "train adapters of this rank beside frozen linear layers (LoRA); 0: the weights",
                 Range<int64_t>{0, 65536});
  add_number(command, "--lora-alpha", lora.alpha, "adapters count alpha / rank times",
             {.least = 0, .without_least = true})
      ->needs(with_lora);
  add_number(command, "--lora-dropout", lora.dropout, "dropout of the inputs of adapters while training",
             Range<double>{0, 1})
      ->needs(with_lora);
  command
      .add_option(
          "--lora-targets", lora.targets,
          "layers by name, its end or a pattern: q_proj v_proj '*.mlp.*'; all linear layers but the head")
      ->take_all()
      ->needs(with_lora);
}

void TrainFlags::add_evaluation(Command& command) {
  command
      .add_option(
          "--eval-data", evaluation_data,
          "data that is not trained on, as --data: its mean loss is measured; the best model is kept as "
          "best.genesis beside the checkpoints")
      ->take_all();
  add_number(command, "--eval-every", evaluate_every, "steps between evaluations; 0: one at the end",
             at_least<int64_t>(0));
  add_number(command, "--eval-batches", evaluation_batches,
             "batches of an evaluation at most; 0: all there are", at_least<int64_t>(0));
  add_number(command, "--patience", patience,
             "stop after this many evaluations in a row without a new best; 0: never", at_least<int64_t>(0));
}

void TrainFlags::check_needs() const {
  if (!optimizer.empty())
    read_value("--optimizer " + optimizer,
               [&] { passes::check_train_options(passes::parse_train_options(optimizer)); });
  if (lora.dropout == 1) fail_usage("--lora-dropout 1: expected a number of 0 or more and less than 1");
  if (checkpoint_every > 0 && checkpoint.empty())
    fail_missing("--checkpoint-every needs --checkpoint DIR, which");
  if (resume && checkpoint.empty()) fail_missing("--resume needs --checkpoint DIR, which");
}

void TrainFlags::check_files() const {
  std::error_code error;
  for (const auto& [option, file] : {std::pair("-o", output), std::pair("--metrics", metrics)}) {
    if (!fs::is_regular_file(file, error)) continue;
    for (const auto* names : {&data, &evaluation_data})
      for (const std::string& name : *names) check_is_not_data(option, file, name);
  }
  if (!metrics.empty() && fs::weakly_canonical(metrics, error) == fs::weakly_canonical(output, error))
    fail_usage("--metrics and -o are both '{}', and one would write over the other: name two files", output);
  check_holds_metrics(metrics);
  check_replaces_model("-o", output);
}

std::string TrainFlags::data_order() const {
  const data::SourceOptions& options = source;
  return fmt::format("--batch {} --seq {} --seed {}{}{}", options.batch_size, options.sequence_length,
                     options.seed, options.shuffle ? "" : " --no-shuffle", text.data_order());
}

void TrainFlags::check_useful(const Command& command, const Model& model) const {
  const bool tokens = has_input(model.entry("train_step"), "tokens");
  const auto is_array = [&](const std::string& file) {
    const std::string ending = file_ending(file);
    return ending == ".npy" || ending == ".safetensors" || (!tokens && is_json_lines(file));
  };
  if (std::ranges::all_of(data, is_array))
    check_not_given(command, "--seq", "with arrays, whose shape says how long a sample is");
  if (!source.shuffle) check_not_given(command, "--seed", "with --no-shuffle");
  if (!evaluates())
    for (const char* option : {"--eval-every", "--eval-batches", "--patience"})
      check_not_given(command, option, "without --eval-data or --holdout, which say what to evaluate");
  if (!evaluation_data.empty())
    check_not_given(command, "--holdout", "with --eval-data, which is what is evaluated");
  if (model.find_state("optimizer.loss_scale") < 0)
    check_not_given(command, "--max-skipped", "without a loss scale, which only training in f16 has");
}

void TrainFlags::warn_of_what_will_be_lost(const Model& model) const {
  if (output.empty() && checkpoint.empty())
    log_warning("nothing of this run will be kept: neither -o FILE nor --checkpoint DIR is given");
  if (!output.empty())
    warn_of_full_disk(output, std::filesystem::path(output).parent_path(), file_bytes(model));
  if (!checkpoint.empty()) warn_of_full_disk("a checkpoint in " + checkpoint, checkpoint, file_bytes(model));
}

void TrainFlags::remember_data(const std::string& content, Model& model) const {
  std::string &order_before = model.metadata[kDataOrderKey],
              &content_before = model.metadata[kDataContentKey];
  const std::string order = data_order();
  if (resume && !order_before.empty() && order_before != order)
    log_warning(
        "the checkpoints in {} took their data with {}, this run does with {}: it will not be the run that "
        "goes on",
        checkpoint, order_before, order);
  else if (resume && !content_before.empty() && content_before != content)
    log_warning("the checkpoints in {} were made of other data than {}: it will not be the run that goes on",
                checkpoint, fmt::join(data, " "));
  order_before = order;
  content_before = content;
}

}  // namespace genesis::tools
