// genesis-run infer: runs an entry point once, with inputs from files and outputs to files.
#include <algorithm>
#include <iostream>

#include "models/formats/onnx/program.h"
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

struct InferFlags {
  std::string file, entry = "forward", output;
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

void check_output(const std::string& path) {
  if (!path.empty() && file_ending(path) != ".npy" && file_ending(path) != ".safetensors")
    fail_usage("--output {}: expected a .npy or .safetensors file", path);
  check_can_write(path);
}

struct Ran {
  NamedTensors inputs, outputs;
  std::vector<std::string> invented;  // names of the inputs that were not given
};

Ran run_model(const InferFlags& flags) {
  const std::string file = model_file(flags.file);
  const std::shared_ptr<const Model> model = load_model(file);
  const SessionOptions options = flags.run.session_options();
  flags.run.memory.check_limits_one_of({flags.entry}, *model);
  Session session(model, options);
  Ran ran;
  ran.inputs = flags.inputs.make(model->entry(flags.entry), {}, &ran.invented);
  with_nonfinite_page(flags.run, file, session, [&] { ran.outputs = session.run(flags.entry, ran.inputs); });
  return ran;
}

// Runs an ONNX file as it is, whose inputs may decide sizes by their values.
Ran run_onnx(const InferFlags& flags) {
  const auto run = [&] {
    OnnxFile file = read_onnx(flags.file);
    const auto signature = models::onnx::signature_of(file);
    Ran ran;
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
  flags.out.print(json, [&] {
    for (const auto& [name, tensor] : outputs)
      std::cout << printable(name) << ": " << tensor.type().to_string()
                << preview(tensor, most(kValuesInText)) << "\n";
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
  flags->inputs.add_to(*command);
  flags->run.add_to(*command);
  flags->run.memory.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Examples:\n  genesis-run infer mlp.genesis --entry forward --input x=x.npy -o y.npy\n"
      "  genesis-run infer resize.onnx --input x=x.npy --input sizes=sizes.npy   # runs the file as it is\n"
      "With --json each output has its dtype, shape, values in row-major order and the number of values "
      "left\n"
      "out. Values that are no numbers in JSON are the strings \"NaN\", \"Infinity\" and \"-Infinity\".");
  command->callback([flags] { infer(*flags); });
}

}  // namespace genesis::tools
