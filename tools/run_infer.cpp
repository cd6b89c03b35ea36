// genesis-run infer: one run of an entry point, inputs from files, outputs to files.
#include <spdlog/spdlog.h>

#include <iostream>

#include "schema/file/npy.h"
#include "schema/file/reader.h"
#include "schema/file/safetensors.h"
#include "tools/run_commands.h"
#include "tools/run_inputs.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file, entry = "forward", output;
  InputFlags inputs;
  RunFlags run;
  Output out;
};

void write_outputs(const NamedTensors& outputs, const std::string& path) {
  if (path.ends_with(".npy")) {
    if (outputs.size() != 1)
      fail("{} holds one array, the entry point gives {}: write a .safetensors file", path, outputs.size());
    return write_npy(path, outputs.begin()->second);
  }
  SafeTensors contents;
  contents.tensors = outputs;
  write_safetensors(path, contents);
}

std::string preview(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  std::string text;
  for (size_t i = 0; i < values.size() && i < 6; ++i) text += fmt::format(" {:.6g}", values[i]);
  return text + (values.size() > 6 ? " ..." : "");
}

void check_output(const std::string& path) {
  if (!path.empty() && !path.ends_with(".npy") && !path.ends_with(".safetensors"))
    fail("--output {}: expected a .npy or .safetensors file", path);
  check_can_write(path);
}

void infer(const Flags& flags) {
  check_output(flags.output);
  const std::shared_ptr<const Model> model = load_model(flags.file);
  Session session(model, flags.run.session_options());
  std::vector<std::string> invented;
  const NamedTensors inputs = flags.inputs.make(model->entry(flags.entry), &invented);
  const NamedTensors outputs = session.run(flags.entry, inputs);
  if (!flags.output.empty()) write_outputs(outputs, flags.output);
  nlohmann::ordered_json json{{"entry", flags.entry}, {"output", flags.output}};
  for (const auto& [name, tensor] : outputs) json["outputs"][name] = tensor.type().to_string();
  flags.out.print(json, [&] {
    for (const auto& [name, tensor] : outputs)
      std::cout << name << ": " << tensor.type().to_string() << preview(tensor) << "\n";
  });
  for (const std::string& name : invented)  // who reads the results must know
    spdlog::warn("input '{}' was not given and is {}: give it with --input {}=FILE", name,
                 inputs.at(name).type().shape.rank() == 0 ? "0" : "random", name);
}

}  // namespace

void add_infer(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("infer", "run an entry point once");
  command->add_option("file", flags->file, "a .genesis file")->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  command->add_option("-o,--output", flags->output, "FILE.npy or FILE.safetensors for the outputs");
  flags->inputs.add_to(*command);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-run infer mlp.genesis --entry forward --input x=x.npy -o y.npy");
  command->callback([flags] { infer(*flags); });
}

}  // namespace genesis::tools
