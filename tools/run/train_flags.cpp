#include "tools/run/train_flags.h"

#include <algorithm>

#include "executor/inputs.h"
#include "models/data/image_folder.h"
#include "schema/core/parse_number.h"
#include "schema/file/io/file_ending.h"
#include "tools/common/numbers.h"
#include "tools/common/ranks.h"
#include "tools/common/usage.h"

namespace genesis::tools {
namespace {

// Parses "1%" or "0.01".
double share_in(const std::string& text) {
  const bool percent = text.ends_with('%');
  const auto number = parse_number<double>(text.substr(0, text.size() - percent));
  const double share = number ? (percent ? *number / 100 : *number) : -1;
  if (!(share >= 0 && share < 1))
    fail_usage("--holdout {}: expected a share such as 1% or 0.01, below 100%", text);
  return share;
}

}  // namespace

void TrainFlags::add_to(Command& command) {
  add_data(command);
  add_text(command);
  add_keeping(command);
  add_training(command);
  add_evaluation(command);
  run.add_to(command);
  run.memory.add_to(command);
  Option* with_mesh = add_mesh(
      command, mesh,
      "the ranks that train together: data=N shares each batch between N of them; started by mpirun or srun "
      "with MPI, on GPUs also by srun without or torchrun's variables, else by this command on this host");
  add_zero(command, with_mesh, job.session.zero);
  out.add_to(command);
}

void TrainFlags::add_data(Command& command) {
  command
      .add_option(
          "file", job.model,
          kModelName +
              std::string(", whose training continues; with --optimizer or --lora, a new training begins"))
      ->required();
  command
      .add_option("--data", job.data,
                  "FILE.txt, FILE.jsonl (or .ndjson), a folder of them, a folder of pictures with a folder "
                  "for each class, "
                  "FILE.safetensors or NAME=FILE.npy; "
                  "may be given again")
      ->required()
      ->take_all();
  add_number(command, "--steps", job.steps, "steps in total, those before a resume included",
             at_least<int64_t>(0));
  add_number(command, "--minutes", job.minutes,
             "stop after this much time, with the evaluation of a last step and exit code 0; 0: never",
             at_least<double>(0));
  add_number(command, "--batch", job.source.batch_size, "samples per step, of all ranks together",
             at_least<int64_t>(1));
  add_number(command, "--seq", job.source.sequence_length, "tokens per sample, for text",
             at_least<int64_t>(1));
  command.add_option(
      "--image", job.image,
      "how pictures are prepared, as KEY=VALUE,...: size, resize, fit, filter, mean, std, and for training "
      "augment=off, min_area, flip (docs/pictures.md)");
  add_number(command, "--seed", job.source.seed, "seed of the order of the data");
  command.add_flag("!--no-shuffle", job.source.shuffle, "take the data in its own order");
}

void TrainFlags::add_text(Command& command) {
  const auto read = [this](const std::vector<std::string>& words) {
    job.text.holdout = share_in(words.back());
  };
  command.add_option("--holdout", read, "share of the documents that is not trained on, such as 1%")
      ->type_name("SHARE");
  command.add_flag(
      "--skip-bad", job.text.skip_bad,
      "leave out lines of .jsonl files that hold no text, and pictures that cannot be read, and count them");
  command.add_option("--token-cache", job.text.token_cache,
                     "folder where text is kept as tokens; ~/.cache/genesis/tokens when not given");
}

// Adds the options about results: what is kept and shown.
void TrainFlags::add_keeping(Command& command) {
  command.add_option("-o,--output", job.output, "write the trained model here");
  command.add_option("--checkpoint", job.checkpoint, "folder for checkpoints");
  add_number(command, "--checkpoint-every", job.checkpoint_every,
             "steps between checkpoints; 0: one at the end", at_least<int64_t>(0));
  add_number(command, "--keep", job.keep, "checkpoints to keep", Range<int64_t>{1, 1000000})
      ->needs("--checkpoint");
  add_number(
      command, "--max-skipped", job.max_skipped,
      "f16: stop after this many steps in a row whose gradients overflowed, and name the node to blame",
      at_least<int64_t>(1));
  command.add_flag("--resume", job.resume, "continue from the newest checkpoint, or start if there is none");
  command.add_option("--metrics", job.metrics,
                     "write one JSON object per step to this file; a resumed run appends to it");
  command.add_option("--tensorboard", job.tensorboard, "write TensorBoard's event files to this folder");
  command.add_flag("--quiet", job.quiet, "no progress bar");
  command.add_flag("--mfu", mfu,
                   "print the share of the device's speed of products that a step reaches, as on a terminal; "
                   "measured at the start");
}

void TrainFlags::add_training(Command& command) {
  command.add_option("--optimizer", job.optimizer,
                     "begin a new training, as genesis-opt --train does, instead of continuing one in the "
                     "file: OPTIMIZER,key=value,...; default with --lora: adamw");
  Option* with_lora =
      add_number(command, "--lora", job.lora.rank,
                 "train adapters of this rank beside frozen linear layers (LoRA); 0: the weights",
                 Range<int64_t>{0, 65536});
  add_number(command, "--lora-alpha", job.lora.alpha, "adapters count alpha / rank times",
             {.least = 0, .without_least = true})
      ->needs(with_lora);
  add_number(command, "--lora-dropout", job.lora.dropout, "dropout of the inputs of adapters while training",
             Range<double>{0, 1})
      ->needs(with_lora);
  command
      .add_option(
          "--lora-targets", job.lora.targets,
          "layers by name, its end or a pattern: q_proj v_proj '*.mlp.*'; all linear layers but the head")
      ->take_all()
      ->needs(with_lora);
  command.add_flag(
      "--expert-load", job.expert_load,
      "with --optimizer or --lora: --metrics get the share of each expert in the tokens of its layer");
}

void TrainFlags::add_evaluation(Command& command) {
  command
      .add_option(
          "--eval-data", job.evaluation_data,
          "data that is not trained on, as --data: its mean loss is measured; the best model is kept as "
          "best.genesis beside the checkpoints")
      ->take_all();
  add_number(command, "--eval-every", job.evaluate_every, "steps between evaluations; 0: one at the end",
             at_least<int64_t>(0));
  add_number(command, "--eval-batches", job.evaluation_batches,
             "batches of an evaluation at most; 0: all there are", at_least<int64_t>(0));
  add_number(command, "--patience", job.patience,
             "stop after this many evaluations in a row without a new best; 0: never", at_least<int64_t>(0));
}

void TrainFlags::check_useful(const Command& command, const Model& model) const {
  const bool tokens = has_input(model.entry("train_step"), "tokens");
  const auto is_array = [&](const std::string& file) {
    const std::string ending = file_ending(file);
    return ending == ".npy" || ending == ".safetensors" || (!tokens && is_json_lines(file)) ||
           (!tokens && data::is_image_folder(file));
  };
  check_rules(command,
              {{std::ranges::all_of(job.data, is_array),
                {"--seq"},
                "with arrays and pictures, whose shape says how long a sample is"},
               {!job.source.shuffle, {"--seed"}, "with --no-shuffle"},
               {!job.evaluates(),
                {"--eval-every", "--eval-batches", "--patience"},
                "without --eval-data or --holdout, which say what to evaluate"},
               {!job.evaluation_data.empty(), {"--holdout"}, "with --eval-data, which is what is evaluated"},
               {model.find_state("optimizer.loss_scale") < 0,
                {"--max-skipped"},
                "without a loss scale, which only training in f16 has"}});
}

}  // namespace genesis::tools
