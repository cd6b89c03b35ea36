// genesis-run infer: runs an entry point once, with inputs from files and outputs to files.
#include <algorithm>
#include <iostream>

#include "models/formats/onnx/program.h"
#include "models/images/image_input.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/reader.h"
#include "schema/messages/log.h"
#include "tools/common/json_values.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/run/run_inputs.h"

namespace genesis::tools {
namespace {

constexpr int64_t kValuesInText = 6, kValuesInJson = 1000;
constexpr size_t kBestClasses = 5;

struct InferFlags {
  std::string file, entry = "forward", output, labels;
  int64_t max_values = -1;  // -1: kValuesInJson or kValuesInText
  InputFlags inputs;
  RunFlags run;
  Output out;
};

std::string preview(const Tensor& tensor, int64_t most) {
  const std::vector<double> values = tensor.to_doubles();
  const auto shown = std::min(values.size(), static_cast<size_t>(most));
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += fmt::format(" {:.6g}", values[i]);
  return text + (values.size() > shown ? fmt::format(" ... and {} more", values.size() - shown) : "");
}

// The most probable classes of each picture, by output: for outputs [pictures, classes] of real numbers.
using BestClasses = std::map<std::string, std::vector<std::vector<images::ClassScore>>>;

BestClasses classes_of(const NamedTensors& outputs) {
  BestClasses best;
  for (const auto& [name, tensor] : outputs) {
    if (tensor.rank() != 2 || !is_float(tensor.dtype()) || tensor.size(1) < 2) continue;
    const std::vector<double> scores = tensor.to_doubles();
    for (auto row = scores.begin(); row != scores.end(); row += tensor.size(1))
      best[name].push_back(images::best_classes({row, row + tensor.size(1)}, kBestClasses));
  }
  return best;
}

// Names a class by the labels of --labels or of the model.
class Labels {
 public:
  Labels(const Model& model, const std::string& file)
      : names_(file.empty() ? images::labels_of(model) : images::read_labels(file)) {}
  std::string name(int64_t index) const {
    return index < std::ssize(names_) ? names_[static_cast<size_t>(index)] : fmt::format("class {}", index);
  }

 private:
  std::vector<std::string> names_;
};

nlohmann::ordered_json classes_json(const BestClasses& best, const Labels& labels) {
  nlohmann::ordered_json json;
  for (const auto& [output, rows] : best)
    for (const auto& row : rows) {
      auto list = nlohmann::ordered_json::array();
      for (const auto& [index, probability] : row)
        list.push_back({{"class", index}, {"label", labels.name(index)}, {"probability", probability}});
      json[output].push_back(list);
    }
  return json;
}

void print_classes(const BestClasses& best, const Labels& labels) {
  for (const auto& [output, rows] : best)
    for (const auto& row : rows) {
      std::cout << printable(output) << ":\n";
      for (const auto& [index, probability] : row)
        std::cout << fmt::format("  {:5.1f}%  {}\n", 100 * probability, printable(labels.name(index)));
    }
}

void check_output(const std::string& path) {
  if (!path.empty() && file_ending(path) != ".npy" && file_ending(path) != ".safetensors")
    fail_usage("--output {}: expected a .npy or .safetensors file", path);
  check_can_write(path);
}

struct Ran {
  std::shared_ptr<const Model> model;  // an ONNX file has only its signature
  NamedTensors inputs, outputs;
  std::vector<std::string> invented;  // names of the inputs that were not given
};

Ran run_model(const InferFlags& flags) {
  const std::string file = model_file(flags.file);
  const std::shared_ptr<const Model> model = load_model(file);
  const SessionOptions options = flags.run.session_options();
  flags.run.memory.check_limits_one_of({flags.entry}, *model);
  Session session(model, options);
  Ran ran{.model = model};
  ran.inputs = flags.inputs.make(model->entry(flags.entry), {}, &ran.invented);
  with_nonfinite_page(flags.run, file, session, [&] { ran.outputs = session.run(flags.entry, ran.inputs); });
  return ran;
}

// Runs an ONNX file as it is, whose inputs may decide sizes by their values.
Ran run_onnx(const InferFlags& flags) {
  const auto run = [&] {
    OnnxFile file = read_onnx(flags.file);
    const std::shared_ptr<const Model> signature = models::onnx::signature_of(file);
    Ran ran{.model = signature};
    ran.inputs = flags.inputs.make(signature->entry(flags.entry), {}, &ran.invented);
    models::onnx::Program program(std::move(file), std::filesystem::absolute(flags.file).parent_path(), {},
                                  flags.run.session_options());
    ran.outputs = program.run(ran.inputs);
    return ran;
  };
  return with_context(run, [&] { return fmt::format("in the ONNX model '{}'", flags.file); });
}

void infer(const InferFlags& flags) {
  check_output(flags.output);
  const Ran ran = models::onnx::is_onnx_file(flags.file) ? run_onnx(flags) : run_model(flags);
  const NamedTensors &inputs = ran.inputs, &outputs = ran.outputs;
  if (!flags.output.empty()) write_outputs(outputs, flags.output);
  nlohmann::ordered_json json{{"entry", flags.entry}, {"output", flags.output}};
  const auto most = [&](int64_t standard) { return flags.max_values >= 0 ? flags.max_values : standard; };
  if (flags.out.json)
    for (const auto& [name, tensor] : outputs)
      json["outputs"][name] = tensor_json(tensor, most(kValuesInJson));
  const BestClasses best = flags.inputs.names_picture() ? classes_of(outputs) : BestClasses();
  const Labels labels(*ran.model, flags.labels);
  if (!best.empty()) json["classes"] = classes_json(best, labels);
  flags.out.print(json, [&] {
    for (const auto& [name, tensor] : outputs)
      std::cout << printable(name) << ": " << tensor.type().to_string()
                << preview(tensor, most(kValuesInText)) << "\n";
    print_classes(best, labels);
  });
  for (const std::string& name : ran.invented)  // a reader of the results must know of made-up inputs
    log_warning("input '{}' was not given and is {}: give it with --input {}=FILE", name,
                inputs.at(name).type().shape.rank() == 0 ? "0" : "random", name);
}

}  // namespace

void add_infer(Command& app) {
  auto flags = std::make_shared<InferFlags>();
  Command* command = app.add_subcommand("infer", "run an entry point once");
  command->add_option("file", flags->file, std::string(kModelName) + "; or an .onnx file")->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  command->add_option("-o,--output", flags->output, "FILE.npy or FILE.safetensors for the outputs");
  add_number(*command, "--max-values", flags->max_values,
             "elements of each output to print at most; the JSON says how many are left out",
             at_least<int64_t>(0))
      ->default_str(fmt::format("{}, with --json {}", kValuesInText, kValuesInJson));
  command->add_option("--labels", flags->labels,
                      "names of the classes, one a line, for the most probable classes of pictures; default: "
                      "the model's own");
  flags->inputs.add_to(*command);
  flags->run.add_to(*command);
  flags->run.memory.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run infer mlp.genesis --entry forward --input x=x.npy -o y.npy\n"
      "  genesis-run infer resize.onnx --input x=x.npy --input sizes=sizes.npy   # runs the file as it is\n"
      "  genesis-run infer resnet50.genesis --input x=photo.jpg\n"
      "With --json each output has its dtype, shape, values in row-major order and the number of values "
      "left\n"
      "out. Values that are no numbers in JSON are the strings \"NaN\", \"Infinity\" and \"-Infinity\".");
  command->callback([flags] { infer(*flags); });
}

}  // namespace genesis::tools
