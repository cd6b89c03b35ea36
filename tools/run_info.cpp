// genesis-run info: what a file holds.
#include <iostream>
#include <map>

#include "schema/file/reader.h"
#include "tools/run_commands.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file;
  bool states = false, verify = false;
  Output out;
};

nlohmann::ordered_json port(const std::string& name, const TensorType& type) {
  return {{"name", name}, {"dtype", name_of(type.dtype)}, {"shape", type.shape.to_string()}};
}

nlohmann::ordered_json entry_json(const Graph& graph) {
  nlohmann::ordered_json json{{"name", graph.name()}, {"nodes", graph.nodes().size()}};
  json["inputs"] = json["outputs"] = nlohmann::ordered_json::array();
  for (ValueId id : graph.inputs()) json["inputs"].push_back(port(graph.value(id).name, graph.type(id)));
  for (const NamedValue& output : graph.outputs())
    json["outputs"].push_back(port(output.name, graph.type(output.value)));
  json["updates"] = graph.updates().size();
  std::map<std::string, int> ops;
  for (const Node& node : graph.nodes()) ++ops[std::string(node.op->name())];
  json["ops"] = ops;
  return json;
}

struct Totals {
  int64_t count = 0, elements = 0, bytes = 0;
};

std::map<std::string, Totals> totals_by_role(const Model& model) {
  std::map<std::string, Totals> totals;
  for (const State& state : model.states()) {
    Totals& row = totals[std::string(name_of(state.role))];
    ++row.count;
    row.elements += state.type.numel();
    row.bytes += state.type.bytes();
  }
  return totals;
}

nlohmann::ordered_json model_json(const Flags& flags, const Model& model) {
  nlohmann::ordered_json json{{"file", flags.file}, {"metadata", model.metadata}};
  json["entries"] = nlohmann::ordered_json::array();
  for (const auto& entry : model.entries()) json["entries"].push_back(entry_json(*entry));
  for (const auto& [role, t] : totals_by_role(model))
    json["states"][role] = {{"count", t.count}, {"elements", t.elements}, {"bytes", t.bytes}};
  if (flags.states)
    for (const State& state : model.states()) {
      json["state_table"].push_back(port(state.name, state.type));
      json["state_table"].back()["role"] = name_of(state.role);
      json["state_table"].back()["trainable"] = state.trainable;
    }
  return json;
}

void print_entry(const Graph& graph) {
  std::cout << "entry point " << graph.name() << ": " << graph.nodes().size() << " nodes, "
            << graph.updates().size() << " state updates\n";
  for (ValueId id : graph.inputs())
    std::cout << "  in   " << graph.value(id).name << ": " << graph.type(id).to_string() << "\n";
  for (const NamedValue& output : graph.outputs())
    std::cout << "  out  " << output.name << ": " << graph.type(output.value).to_string() << "\n";
  std::map<std::string_view, int> ops;
  for (const Node& node : graph.nodes()) ++ops[node.op->name()];
  std::cout << "  ops ";
  for (const auto& [op, count] : ops) std::cout << " " << op << " x" << count;
  std::cout << "\n";
}

void print_text(const Flags& flags, const Model& model) {
  for (const auto& [key, value] : model.metadata) std::cout << key << ": " << value << "\n";
  for (const auto& [role, t] : totals_by_role(model))
    std::cout << role << " states: " << t.count << ", " << human_count(static_cast<double>(t.elements))
              << " elements, " << human_bytes(static_cast<double>(t.bytes)) << "\n";
  for (const auto& entry : model.entries()) print_entry(*entry);
  if (!flags.states) return;
  for (const State& state : model.states())
    std::cout << "state " << state.name << ": " << state.type.to_string() << " " << name_of(state.role)
              << (state.trainable ? ", trainable" : "") << "\n";
}

void info(const Flags& flags) {
  const auto model = load_model(flags.file, {.verify = flags.verify ? Verify::kFull : Verify::kHeader});
  flags.out.print(model_json(flags, *model), [&] { print_text(flags, *model); });
}

}  // namespace

void add_info(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("info", "entry points, inputs and outputs, parameters, op counts");
  command->add_option("file", flags->file, "a .genesis file")->required();
  command->add_flag("--states", flags->states, "list every state");
  command->add_flag("--verify", flags->verify, "check the hash of every weight, which reads the whole file");
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-run info model.genesis --states");
  command->callback([flags] { info(*flags); });
}

}  // namespace genesis::tools
