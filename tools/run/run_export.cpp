// genesis-run export: writes a model, or the newest checkpoint of a folder, as a folder that transformers opens or as an ONNX file.
#include <iostream>

#include "models/formats/hugging_face/export.h"
#include "models/formats/onnx/export/export.h"
#include "models/formats/onnx/export/patch.h"
#include "models/formats/onnx/import.h"
#include "passes/training/weight_average.h"
#include "schema/messages/log.h"
#include "schema/messages/shell_word.h"
#include "tools/common/file_progress.h"
#include "tools/common/meant_words.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/run/run_commands.h"

namespace genesis::tools {
namespace {

struct ExportFlags {
  std::string file, output, shard_size = "5GB", dtype, entry = "forward", like;
  bool force = false, quiet = false;
  const Option* entry_option = nullptr;
  Output out;
};

models::hugging_face::ExportOptions options_of(const ExportFlags& flags) {
  models::hugging_face::ExportOptions options;
  options.shard_bytes = static_cast<uint64_t>(bytes_or_fail("--shard-size", flags.shard_size));
  options.replace = flags.force;
  if (flags.dtype.empty()) return options;
  options.dtype = parse_dtype(flags.dtype);
  const bool known =
      options.dtype == DType::f32 || options.dtype == DType::bf16 || options.dtype == DType::f16;
  if (!known)
    fail_usage("--dtype {}: expected bf16, f16 or f32{}", flags.dtype,
               meant_value(flags.dtype, {"bf16", "f16", "f32"}));
  return options;
}

void check_output(const ExportFlags& flags) {
  std::error_code error;
  if (std::filesystem::equivalent(flags.output, std::filesystem::current_path(error), error))
    fail("-o {}: this is the current folder, which would be replaced under the shell: name another one",
         flags.output);
  if (!flags.force && std::filesystem::is_directory(flags.output, error) &&
      !std::filesystem::is_empty(flags.output, error))
    fail("the folder '{}' is there already: name another one, or give --force to replace an older export",
         flags.output);
  jobs::check_can_make_folder(flags.output);
}

// Mentions averaged weights, which the user may want to export instead.
void tell_of_averages(const ExportFlags& flags, const Model& model) {
  for (size_t i = 0; i < model.states().size(); ++i)
    if (passes::average_of(model, static_cast<int32_t>(i)) >= 0)
      return log_info(
          "{} has averages of its weights too (ema): `genesis-opt {} --averages -o FILE` makes a model of "
          "those",
          flags.file, shell_word(flags.file));
}

// Writes the file of --like with the values of the model.
void patch_onnx(const ExportFlags& flags, const Model& model) {
  const auto patched = models::onnx::patch_weights(model, flags.like, flags.output);
  for (const std::string& name : patched.untouched)
    log_warning("the parameter '{}' is no weight of '{}': its values are left out", name, flags.like);
  flags.out.print({{"files", {flags.output}}, {"replaced", patched.replaced}}, [&] {
    std::cout << fmt::format("{}: {} with {} weights of the model\n", printable(flags.output),
                             printable(flags.like), patched.replaced);
  });
}

// Writes the .onnx file, and beside it the weights that are too large for one.
void export_onnx(const ExportFlags& flags) {
  if (!flags.dtype.empty()) fail_usage("--dtype: an .onnx file has the weights as they are");
  check_can_write(flags.output);
  FileProgress progress(flags.quiet);
  const auto model = open_model(flags.file, {.verify = Verify::kFull, .progress = progress.hook()});
  const auto context = [&] { return "while exporting '" + flags.file + "'"; };
  if (!flags.like.empty()) return with_context([&] { patch_onnx(flags, *model); }, context);
  const auto exported = with_context(
      [&] { return models::onnx::export_model(*model, flags.output, {.entry = flags.entry}); }, context);
  if (exported.batch_norms + exported.dropouts > 0)
    log_info("written for inference: {} batch norms use their running statistics, {} dropouts are left out",
             exported.batch_norms, exported.dropouts);
  std::vector<std::string> files;
  for (const auto& file : exported.files) files.push_back(file.string());
  flags.out.print({{"files", files}, {"nodes", exported.nodes}, {"parameters", exported.parameters}}, [&] {
    std::cout << fmt::format("{}: entry point {}, {} nodes, {} parameters{}\n", printable(flags.output),
                             printable(flags.entry), exported.nodes,
                             human_count(static_cast<double>(exported.parameters)),
                             files.size() > 1 ? ", weights in " + printable(files.back()) : "");
  });
}

void export_command(const ExportFlags& flags) {
  if (models::onnx::is_onnx_file(flags.output)) return export_onnx(flags);
  if (!flags.like.empty()) fail_usage("--like: expected -o NAME.onnx");
  if (flags.entry_option->count() > 0)
    fail_usage("--entry: a folder has the whole model; an entry point is written to a file NAME.onnx");
  auto options = options_of(flags);
  check_output(flags);
  FileProgress progress(flags.quiet);
  options.progress = progress.hook();
  // Verifies every byte, since every byte is read anyway.
  const auto model = open_model(flags.file, {.verify = Verify::kFull, .progress = options.progress});
  const auto exported =
      with_context([&] { return models::hugging_face::export_model(*model, flags.output, options); },
                   [&] { return "while exporting '" + flags.file + "'"; });
  if (!flags.quiet) tell_of_averages(flags, *model);
  flags.out.print(
      {{"folder", flags.output},
       {"model", exported.model},
       {"parameters", exported.parameters},
       {"bytes", exported.bytes},
       {"merged_adapters", exported.merged_adapters},
       {"files", exported.files}},
      [&] {
        std::cout << fmt::format(
            "{}: {}, {} parameters, {} in {} files{}\n", printable(flags.output), exported.model,
            human_count(static_cast<double>(exported.parameters)), human_bytes(exported.bytes),
            exported.files.size(),
            exported.merged_adapters == 0
                ? ""
                : fmt::format("; {} LoRA adapters are added to the weights", exported.merged_adapters));
      });
}

}  // namespace

void add_export(Command& app) {
  auto flags = std::make_shared<ExportFlags>();
  Command* command =
      app.add_subcommand("export", "a model as a folder that transformers opens, or as an ONNX file");
  command->add_option("file", flags->file, kModelName)->required();
  command
      ->add_option("-o,--output", flags->output,
                   "folder to write, or a file NAME.onnx; it appears complete or not at all")
      ->required();
  flags->entry_option = command->add_option("--entry", flags->entry, "entry point that becomes an ONNX file")
                            ->capture_default_str();
  command->add_option("--like", flags->like,
                      "the .onnx file that the model came from: its graph is kept, with the model's weights");
  command->add_option("--dtype", flags->dtype, "bf16, f16 or f32; default: as the weights are");
  command->add_option("--shard-size", flags->shard_size, "most bytes of weights in a file (500MB, 5GB)")
      ->capture_default_str();
  command->add_flag("--force", flags->force, "replace an older export");
  command->add_flag("--quiet", flags->quiet, "print no progress");
  flags->out.add_to(*command);
  command->footer(
      "Examples:\n  genesis-run export run/ -o my-qwen --dtype bf16\n  genesis-run export run/ -o "
      "tuned.onnx\nWritten to a folder are config.json and safetensors, "
      "in shards where they are larger than --shard-size. Left out is what\nonly training needs. LoRA "
      "adapters are added to the weights; genesis-opt --save-adapter writes them alone.");
  command->callback([flags] { export_command(*flags); });
}

}  // namespace genesis::tools
