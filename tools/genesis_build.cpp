// genesis-build: writes a .genesis file from a model of the zoo, a folder saved by transformers, a GGUF file, a program of
// torch.export or an ONNX model.
#include <filesystem>
#include <iostream>
#include <sstream>

#include "builder/init_watcher.h"
#include "builder/rope_scaling.h"
#include "executor/runtime/host_memory.h"
#include "models/formats/gguf/import.h"
#include "models/formats/hugging_face/import.h"
#include "models/formats/hugging_face/sentence_modules.h"
#include "models/formats/onnx/import.h"
#include "models/formats/onnx/import_settings.h"
#include "models/formats/pt2/import.h"
#include "models/jobs/output_files.h"
#include "models/load_weights.h"
#include "models/text/load_tokenizer.h"
#include "models/tokenizer/model_files.h"
#include "models/zoo.h"
#include "schema/core/checked_size.h"
#include "schema/file/attached_files.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/io/lfs_pointer.h"
#include "schema/file/json_text.h"
#include "schema/file/writer.h"
#include "schema/messages/log.h"
#include "tools/build/brought_settings.h"
#include "tools/build/build_commands.h"
#include "tools/build/other_tokenizer.h"
#include "tools/common/file_progress.h"
#include "tools/common/meant_words.h"
#include "tools/common/model_name.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/tool.h"

namespace genesis::tools {
namespace {

constexpr const char* kExamples = R"(Examples:
  genesis-build --list
  genesis-build mlp -o mlp.genesis
  genesis-build ~/Qwen2.5-0.5B-Instruct -o qwen.genesis
  genesis-build --hf Qwen/Qwen2.5-0.5B-Instruct -o qwen.genesis
  genesis-build ~/Qwen2.5-0.5B-Instruct --link -o qwen.genesis
  genesis-build qwen2.5-0.5b-q4_k_m.gguf --set dtype=f32 -o qwen.genesis
  genesis-build resnet50 --weights resnet50.safetensors -o resnet50.genesis
  genesis-build resnet.pt2 -o resnet.genesis
  genesis-build detector.onnx --set images.shape=1,3,640,640 -o detector.genesis
  genesis-build qwen2.5-7b-q8_0-00001-of-00003.gguf --tokenizer ~/Qwen2.5-7B-Instruct -o qwen.genesis
  genesis-build tokenizer corpus/ -o tokenizer --vocab-size 32000
  genesis-build qwen2 --set hidden_size=256 --set num_hidden_layers=6 --seed 1 -o qwen2.genesis)";

constexpr const char* kSettings =
    "key=value setting; may be given again. For an .onnx file: SIZE=1 or SIZE=32*h for a named size, "
    "INPUT.shape=1,3,640,640, INPUT=2,3 for an input whose value decides sizes, or NODE.steps=500 for "
    "the most steps of a loop that collects values";

struct Flags {
  std::string name, hub_name, output, tokenizer, pooling, weights;
  std::vector<std::string> settings, ignored;
  uint64_t seed = 0;
  bool list = false, quiet = false, link = false, no_values = false, widen = false, normalize = false;
  Output out;
};

models::Settings parse_settings(const std::vector<std::string>& settings) {
  models::Settings parsed;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) fail_usage("--set {}: expected key=value", setting);
    if (!parsed.emplace(setting.substr(0, equals), setting.substr(equals + 1)).second)
      fail_usage("--set {}: '{}' is set twice", setting, setting.substr(0, equals));
    const std::string value = setting.substr(equals + 1);
    if (setting.substr(0, equals) == "dtype" && !parse_dtype(value))
      fail_usage("--set {}: expected f32, bf16 or f16{}", setting,
                 meant_value(value, {"f32", "bf16", "f16"}));
  }
  return parsed;
}

void list_models(const Output& out) {
  nlohmann::ordered_json json;
  for (const auto& model : models::list_models()) {
    json[model.name]["summary"] = model.summary;
    for (const auto& [key, value] : model.settings)
      json[model.name]["settings"][key] = parse_json_text(value);
  }
  out.print(json, [&] {
    for (const auto& model : models::list_models()) {
      std::cout << model.name << ": " << model.summary << "\n";
      for (const auto& [key, value] : model.settings) std::cout << "  " << key << "=" << value << "\n";
    }
  });
}

void set_vocabulary(models::Settings& settings, const std::string& tokenizer) {
  const int64_t tokens = text::load_tokenizer(tokenizer).vocab_size();
  const auto [set, is_new] = settings.emplace("vocab_size", std::to_string(tokens));
  if (!is_new && number_or_fail<int64_t>("--set vocab_size", set->second) < tokens)
    fail("--set vocab_size={}: {} has {} tokens: leave the setting out, or set as many or more", set->second,
         tokenizer, tokens);
}

// Returns "--set n_layer=12 --set n_embd=768".
std::string text_of(const models::Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings)
    text += fmt::format("{}--set {}={}", text.empty() ? "" : " ", key, value);
  return text;
}

// Throws Error before any weight is drawn if this machine cannot hold the model's weights.
void check_fits(const std::string& name, const models::Settings& settings) {
  const auto uninitialized = models::make_uninitialized_model(name, settings);
  CheckedSize bytes = 0;
  for (const State& state : uninitialized->states())
    if (state.role != StateRole::kCache) bytes += state.type.bytes();
  check_host_has(bytes.value(), "a model of this size");
}

std::unique_ptr<Model> make_checked(const std::string& name, const models::Settings& settings,
                                    uint64_t seed) {
  const auto make = [&] {
    check_fits(name, settings);
    return models::make_model(name, settings, seed);
  };
  if (settings.empty()) return make();
  return with_context(make,
                      [&] { return fmt::format("in the model '{}' with {}", name, text_of(settings)); });
}

// Makes a model with the tokenizer's vocabulary, or a larger one if `settings` ask for it. An empty `tokenizer` makes
// the model alone.
std::unique_ptr<Model> make_with_tokenizer(const std::string& name, models::Settings settings, uint64_t seed,
                                           const std::string& tokenizer) {
  if (tokenizer.empty()) return make_checked(name, settings, seed);
  set_vocabulary(settings, tokenizer);
  auto model = make_checked(name, settings, seed);
  take_tokenizer(*model, tokenizer);
  return model;
}

// Warns if the model's tokenizer cannot be used. The weights are useful without it, so the file is kept.
void warn_of_tokenizer(const Model& model, const std::string& source) try {
  text::brought_tokenizer(model, source);
} catch (const Error& error) {
  log_warning("text will need another tokenizer (--tokenizer): {}", error.message());
}

// Warns if the folder has a tokenizer only in a form that cannot be read.
void warn_of_no_tokenizer(const Model& model, const std::string& folder) {
  if (attached_file(model, "tokenizer.json")) return;
  for (const char* file : {"vocab.json", "tokenizer.model", "spiece.model", "vocab.txt"})
    if (std::filesystem::exists(std::filesystem::path(folder) / file))
      return log_warning(
          "the model brings no tokenizer: {} has '{}' and no tokenizer.json, which save_pretrained() of a "
          "fast tokenizer "
          "of transformers writes; text will need one (--tokenizer)",
          folder, file);
}

bool is_program(const std::string& name) {
  return models::pt2::is_pt2_file(name) || models::onnx::is_onnx_file(name);
}

std::unique_ptr<Model> import_onnx(const std::string& path, const models::Settings& settings,
                                   MappedFiles& files) {
  const OnnxFile file = read_onnx(path);
  const auto folder = std::filesystem::absolute(path).parent_path();
  return with_context(
      [&] {
        return models::onnx::import_file(file, folder, &files, models::onnx::options_of(file, settings));
      },
      [&] { return fmt::format("in the ONNX model '{}'", path); });
}

// Imports a program that torch.export saved, or an ONNX model; it has no tokenizer but one named on the command line.
std::unique_ptr<Model> import_program(const Flags& flags, const models::Settings& settings,
                                      MappedFiles& files) {
  auto model = models::onnx::is_onnx_file(flags.name) ? import_onnx(flags.name, settings, files)
                                                      : models::pt2::import_model(flags.name, &files);
  if (!flags.tokenizer.empty()) take_tokenizer(*model, flags.tokenizer);
  return model;
}

// Imports the weights of a folder or a GGUF file, with its own tokenizer or the one named on the command line.
std::unique_ptr<Model> import_named(const Flags& flags, const models::Settings& settings,
                                    MappedFiles& files) {
  if (is_program(flags.name)) return import_program(flags, settings, files);
  const bool is_folder = models::hugging_face::is_model_folder(flags.name);
  using models::hugging_face::Quantized;
  const Quantized quantized = flags.widen ? Quantized::kWidened : Quantized::kKept;
  auto model =
      is_folder ? models::hugging_face::import_model(flags.name, settings, &files, flags.ignored, quantized)
                : models::gguf::import_model(flags.name, settings, &files, !flags.tokenizer.empty(),
                                             flags.ignored, quantized);
  if (!flags.tokenizer.empty()) {
    take_tokenizer(*model, flags.tokenizer);
    return model;
  }
  warn_of_tokenizer(*model, flags.name);
  if (is_folder) warn_of_no_tokenizer(*model, flags.name);
  return model;
}

// Adds the vectors of texts that --pooling asks for, in place of those that the folder names.
void set_pooling(Model& model, const Flags& flags) {
  if (flags.pooling.empty()) return;
  models::VectorSettings settings{.pooling = {}, .normalize = flags.normalize};
  std::istringstream modes(flags.pooling);
  for (std::string mode; std::getline(modes, mode, ',');) settings.pooling.push_back(mode);
  read_value("--pooling " + flags.pooling, [&] { models::add_vectors(model, settings); });
  const Graph& embed = model.entry("embed");
  const int64_t features = embed.type(embed.outputs().front().value).shape[1].value();
  models::hugging_face::attach_sentence_modules(model, settings, features / std::ssize(settings.pooling));
}

bool is_imported(const std::string& name) {
  return models::hugging_face::is_model_folder(name) || models::gguf::is_gguf_file(name) ||
         (is_program(name) && std::filesystem::exists(name));
}

// Imports or draws the model and writes the file. Shows progress if that takes a while.
std::unique_ptr<Model> make_file(const Flags& flags) {
  FileProgress progress(flags.quiet);
  const init::Watcher watcher([&](auto... about) { progress.update(about...); });
  const models::Settings settings = parse_settings(flags.settings);
  MappedFiles files;
  auto model = is_imported(flags.name) ? import_named(flags, settings, files)
               : flags.no_values       ? models::make_uninitialized_model(flags.name, settings)
                                 : make_with_tokenizer(flags.name, settings, flags.seed, flags.tokenizer);
  if (!flags.weights.empty()) models::load_weights(*model, flags.weights, flags.ignored);
  set_pooling(*model, flags);
  if (!flags.link) files.clear();
  leave_out_broken_settings(*model, flags.tokenizer.empty() ? flags.name : flags.tokenizer);
  save_model(*model, flags.output, {.progress = progress.hook(), .links = files});
  return model;
}

// Returns true if the name looks like OWNER/NAME of Hugging Face.
bool names_repository(const std::string& name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  const size_t slash = name.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == name.size() || name[0] == '.') return false;
  return name.find_first_not_of(kLetters) == slash &&
         name.find_first_not_of(kLetters, slash + 1) == std::string::npos;
}

// Throws Error if `name` is no model of the zoo but an existing file of another kind, or a repository name.
void check_is_no_other_file(const std::string& name) {
  for (const auto& model : models::list_models())
    if (model.name == name) return;
  check_is_no_lfs_pointer(name);
  if (std::filesystem::exists(name))
    fail(
        "'{}' is a file that no model is made of: expected a model of the zoo (--list), a folder that "
        "transformers saved, a .gguf file, a .pt2 file or an .onnx file",
        name);
  if (names_repository(name))
    fail(
        "there is no folder '{0}'. If that is a name on Hugging Face: `genesis-build --hf {0} -o "
        "{1}.genesis` "
        "fetches it and makes a model file of it",
        name, name.substr(name.find('/') + 1));
  if (name.find('/') != std::string::npos) fail("there is no folder '{}'", name);
  for (const char* ending : {".gguf", ".pt2", ".genesis", ".safetensors", ".onnx", ".bin", ".pt", ".json"})
    if (file_ending(name) == ending) fail("there is no file '{}'", name);
}

// Returns true for settings of scaled rotations.
bool is_of_scaling(const std::string& setting) {
  bool found = false;
  const nn::RopeScaling standard;
  nn::RopeScaling::fields(standard, [&](const char* name, const auto&) { found = found || setting == name; });
  return found;
}

// Checks the settings by making the graph without weights, which takes almost no time and memory.
void check_settings(const Flags& flags) {
  const models::Settings settings = parse_settings(flags.settings);
  if (!settings.empty())
    read_value(text_of(settings), [&] { models::make_uninitialized_model(flags.name, settings); });
  if (settings.contains("rope_scaling")) return;
  for (const auto& [key, value] : settings)
    if (is_of_scaling(key)) fail_usage("--set {}={} does nothing without --set rope_scaling=...", key, value);
}

void build(Flags flags, const Command& app) {
  if (!flags.hub_name.empty()) {
    if (!flags.name.empty()) fail_usage("--hf {}: there is a model already, {}", flags.hub_name, flags.name);
    if (flags.output.empty()) fail_missing("-o FILE.genesis");
    flags.name = fetched(flags.hub_name, flags.quiet);
  }
  const bool imports = !flags.name.empty() && is_imported(flags.name);
  check_rules(app, {{flags.list, {"--list", "--json"}, "with --list", OptionRule::kAllBut}});
  if (flags.list) return list_models(flags.out);
  if (flags.name.empty()) fail_missing("a model's name (`genesis-build --list` shows what there is)");
  if (flags.output.empty()) fail_missing("-o FILE.genesis");
  check_rules(
      app,
      {{flags.pooling.empty(), {"--normalize"}, "without --pooling"},
       {imports, {"--seed", "--no-values"}, "with a folder or a file of weights, which are there"},
       {models::pt2::is_pt2_file(flags.name), {"--set"}, "with an exported program, which is what it is"},
       {is_program(flags.name), {"--ignore-extra"}, "with a program, which has no extra weights"},
       {flags.no_values,
        {"--seed", "--tokenizer", "--weights", "--pooling"},
        "with --no-values, which leaves all weights zero"},
       {imports, {"--weights"}, "with a folder or a file of weights, which are there"},
       {!imports && flags.weights.empty(), {"--ignore-extra"}, "with a model of the zoo, without --weights"},
       {!imports, {"--link", "--widen"}, "with a model of the zoo, which has no files of weights yet"}});
  if (!imports) {
    check_is_no_other_file(flags.name);
    check_settings(flags);
  }
  check_can_write(flags.output);
  jobs::check_replaces_model("-o", flags.output);
  const auto model = make_file(flags);
  const std::string& name = model->metadata.at("architecture");
  int64_t parameters = 0;
  for (const State& state : model->states())
    if (state.role == StateRole::kParameter) parameters += state.type.numel();
  flags.out.print({{"file", flags.output}, {"model", name}, {"parameters", parameters}}, [&] {
    std::cout << printable(flags.output) << ": " << name << ", "
              << human_count(static_cast<double>(parameters)) << " parameters\n";
  });
}

// Adds the options but for those of all tools.
void add_flags(Command& app, Flags& flags) {
  app.add_option("model", flags.name,
                 "a model of the zoo (--list), a folder with config.json and safetensors, a .gguf "
                 "file (the first, if there are several), a .pt2 file of torch.export, or an .onnx file");
  add_hub_name(app, flags.hub_name);
  app.add_option("-o,--output", flags.output, "file to write");
  app.add_option("--set", flags.settings, kSettings)->take_all();
  app.add_option("--weights", flags.weights,
                 "for a model of the zoo: a .safetensors file whose tensors have the names of the "
                 "model's weights, such "
                 "as torchvision's model.state_dict()");
  app.add_option("--ignore-extra", flags.ignored,
                 "for a folder, a GGUF file or --weights: leave out the weights with these names (* is "
                 "any text, "
                 "? any character) that the model does not have; may be given again")
      ->allow_extra_args(false);
  add_number(app, "--seed", flags.seed, "decides every initial value");
  app.add_flag(
      "--no-values", flags.no_values,
      "write a model of the zoo without its weights, for plans of models that this machine cannot hold "
      "(genesis-opt --check)");
  app.add_flag("--link", flags.link,
               "leave the weights in their files, which then have to stay where they are, seen from "
               "the new file");
  app.add_flag("--widen", flags.widen,
               "make all quantized weights plain; without it, those that q8 or q4 hold exactly stay "
               "quantized");
  app.add_option(
      "--tokenizer", flags.tokenizer,
      "a tokenizer.json, a folder with one or a model that contains one, to be contained in the file; "
      "sets vocab_size of a model of the zoo, and replaces the tokenizer of a folder or a GGUF file");
  app.add_option("--pooling", flags.pooling,
                 "make vectors of texts (genesis-run embed) of the features of their tokens: cls, max, mean, "
                 "mean_sqrt_len_tokens, weightedmean or lasttoken, or several with commas between them");
  app.add_flag("--normalize", flags.normalize, "with --pooling: vectors have the length 1");
  app.add_flag("--list", flags.list, "list the models and their settings");
  app.add_flag("--quiet", flags.quiet, "print no progress");
}

}  // namespace
}  // namespace genesis::tools

int main(int argc, char** argv) {
  using namespace genesis::tools;
  Flags flags;
  return run_tool(
      argc, argv, "genesis-build",
      "Makes a .genesis file: of a model of the zoo, of a folder that transformers saved, of a GGUF file, of "
      "a program that "
      "torch.export saved, or of an ONNX model.",
      kExamples, [&](Command& app) {
        add_flags(app, flags);
        flags.out.add_to(app);
        add_tokenizer(app);
        app.callback([&] {
          if (!app.has_given_subcommand()) build(flags, app);
        });
      });
}
