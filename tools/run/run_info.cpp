// genesis-run info: shows what a file contains.
#include <fmt/ranges.h>

#include <iostream>
#include <map>
#include <optional>

#include "executor/inspection/run_needs.h"
#include "executor/runtime/device.h"
#include "executor/runtime/missing_features.h"
#include "schema/file/reader.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/usage.h"
#include "tools/run/run_commands.h"

namespace genesis::tools {
namespace {

struct InfoFlags {
  std::string file, device;
  std::vector<std::string> sizes, disable;
  bool states = false, verify = false, kernels = false;
  BudgetFlags memory;
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

// Returns the bytes of a state's values in the file.
int64_t kept_bytes(const State& state) {
  int64_t bytes = state.encoded ? 0 : state.type.bytes();
  for (const Tensor& part : state.encoded.parts) bytes += part.bytes();
  return bytes;
}

std::map<std::string, Totals> totals_by_role(const Model& model) {
  std::map<std::string, Totals> totals;
  for (const State& state : model.states()) {
    Totals& row = totals[std::string(name_of(state.role))];
    ++row.count;
    row.elements += state.type.numel();
    row.bytes += kept_bytes(state);
  }
  return totals;
}

nlohmann::ordered_json model_json(const InfoFlags& flags, const Model& model) {
  nlohmann::ordered_json json{{"file", flags.file}, {"metadata", model.metadata}};
  json["entries"] = nlohmann::ordered_json::array();
  for (const auto& entry : model.entries()) json["entries"].push_back(entry_json(*entry));
  for (const auto& [role, t] : totals_by_role(model))
    json["states"][role] = {{"count", t.count}, {"elements", t.elements}, {"bytes", t.bytes}};
  json["files"] = nlohmann::ordered_json::object();
  for (const auto& [name, bytes] : model.files) json["files"][name] = bytes.bytes();
  json["missing"] = missing_features();
  if (flags.states)
    for (const State& state : model.states()) {
      json["state_table"].push_back(port(state.name, state.type));
      json["state_table"].back()["role"] = name_of(state.role);
      json["state_table"].back()["trainable"] = state.trainable;
      if (state.encoded) json["state_table"].back()["format"] = state.encoded.format->name;
    }
  return json;
}

void print_entry(const Graph& graph) {
  std::cout << "entry point " << printable(graph.name()) << ": " << graph.nodes().size() << " nodes, "
            << graph.updates().size() << " state updates\n";
  for (ValueId id : graph.inputs())
    std::cout << "  in   " << printable(graph.value(id).name) << ": " << printable(graph.type(id).to_string())
              << "\n";
  for (const NamedValue& output : graph.outputs())
    std::cout << "  out  " << printable(output.name) << ": "
              << printable(graph.type(output.value).to_string()) << "\n";
  std::map<std::string_view, int> ops;
  for (const Node& node : graph.nodes()) ++ops[node.op->name()];
  std::cout << "  ops ";
  for (const auto& [op, count] : ops) std::cout << " " << op << " x" << count;
  std::cout << "\n";
}

void print_text(const InfoFlags& flags, const Model& model) {
  for (const auto& [key, value] : model.metadata)
    std::cout << printable(key) << ": " << printable(value) << "\n";
  for (const auto& [role, t] : totals_by_role(model))
    std::cout << role << " states: " << t.count << ", " << human_count(static_cast<double>(t.elements))
              << " elements, " << human_bytes(t.bytes) << "\n";
  for (const auto& [name, bytes] : model.files)
    std::cout << "file " << printable(name) << ": " << human_bytes(bytes.bytes()) << "\n";
  for (const auto& entry : model.entries()) print_entry(*entry);
  for (const std::string& feature : missing_features()) std::cout << "missing: " << feature << "\n";
  if (!flags.states) return;
  for (const State& state : model.states())
    std::cout << "state " << printable(state.name) << ": " << state.type.to_string() << " "
              << name_of(state.role) << (state.trainable ? ", trainable" : "")
              << (state.encoded ? fmt::format(", kept as {}", state.encoded.format->name) : "") << "\n";
}

// Returns nothing if the device is missing: a plan can be made without it.
std::optional<int64_t> free_bytes(const std::string& device) {
  try {
    return open_device(device, 0)->free_bytes();
  } catch (const Error&) {
    return std::nullopt;
  }
}

nlohmann::ordered_json needs_json(const std::vector<RunNeeds>& needs, const std::optional<int64_t>& free) {
  nlohmann::ordered_json json;
  for (const RunNeeds& n : needs)
    json["entries"][n.entry] = {{"arena_bytes", n.arena},  {"workspace_bytes", n.workspace},
                                {"state_bytes", n.states}, {"constant_bytes", n.constants},
                                {"input_bytes", n.inputs}, {"peak_bytes", n.peak()}};
  if (free) json["free_bytes"] = *free;
  return json;
}

void print_needs(const std::string& device, const std::vector<RunNeeds>& needs,
                 const std::optional<int64_t>& free) {
  for (const RunNeeds& n : needs)
    std::cout << fmt::format(
        "{} on {}: {} at most: arena {} (of it workspace of libraries and kernels up to {}), states {}, "
        "constants {}, inputs {}\n",
        printable(n.entry), device, human_bytes(n.peak()), human_bytes(n.arena), human_bytes(n.workspace),
        human_bytes(n.states), human_bytes(n.constants), human_bytes(n.inputs));
  if (free) std::cout << fmt::format("free on {}: {}\n", device, human_bytes(*free));
}

nlohmann::ordered_json kernels_json(const std::vector<RunNeeds>& needs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const RunNeeds& n : needs)
    for (const KernelUse& use : n.kernels) {
      nlohmann::ordered_json row{{"kernel", use.choice.name}, {"ops", use.ops}, {"example", use.example}};
      row["declined"] = nlohmann::ordered_json::object();
      for (const auto& [name, reason] : use.choice.declined) row["declined"][name] = reason;
      if (!use.choice.decided_later.empty()) row["decided_later"] = use.choice.decided_later;
      json[n.entry].push_back(row);
    }
  return json;
}

void print_kernels(const std::string& device, const std::vector<RunNeeds>& needs) {
  for (const RunNeeds& n : needs) {
    std::cout << fmt::format("kernels of {} on {}:\n", printable(n.entry), device);
    for (const KernelUse& use : n.kernels) {
      std::vector<std::string> ops;
      for (const auto& [op, count] : use.ops) ops.push_back(fmt::format("{} x{}", op, count));
      std::cout << fmt::format("  {:<28} {}, first {}\n", use.choice.name, fmt::join(ops, ", "),
                               printable(use.example));
      if (!use.choice.decided_later.empty()) std::cout << fmt::format("    {}\n", use.choice.decided_later);
      for (const auto& [name, reason] : use.choice.declined)
        std::cout << fmt::format("    not {}: {}\n", name, reason);
    }
  }
}

void info(InfoFlags flags, const Command& app) {
  check_rules(app, {{flags.device.empty(),
                     {"--size", "--memory-budget", "--remat", "--kernels", "--disable"},
                     "without --device, which asks what runs would take"}});
  if (!flags.device.empty()) {
    check_device("--device", flags.device);
    check_disabled({flags.disable.begin(), flags.disable.end()}, flags.device);
  }
  flags.file = model_file(flags.file);
  const auto model = load_model(flags.file, {.verify = flags.verify ? Verify::kFull : Verify::kHeader});
  nlohmann::ordered_json json = model_json(flags, *model);
  if (flags.device.empty()) return flags.out.print(json, [&] { print_text(flags, *model); });
  std::vector<std::string> entries;
  for (const auto& entry : model->entries()) entries.push_back(entry->name());
  flags.memory.check_limits_one_of(entries, *model);
  const std::string device = resolve_device(flags.device);
  const std::vector<RunNeeds> needs = run_needs(
      *model, parse_sizes(flags.sizes), target_of(device),
      {.disabled = {flags.disable.begin(), flags.disable.end()}, .memory_budget = flags.memory.bytes()},
      flags.kernels);
  const std::optional<int64_t> free = free_bytes(device);
  json["memory"] = needs_json(needs, free);
  json["memory"]["device"] = device;
  if (flags.kernels) json["kernels"] = kernels_json(needs);
  flags.out.print(json, [&] {
    print_text(flags, *model);
    print_needs(device, needs, free);
    if (flags.kernels) print_kernels(device, needs);
  });
}

}  // namespace

void add_info(Command& app) {
  auto flags = std::make_shared<InfoFlags>();
  Command* command = app.add_subcommand("info", "entry points, inputs and outputs, parameters, op counts");
  command->add_option("file", flags->file, kModelName)->required();
  command->add_flag("--states", flags->states, "list every state");
  command->add_flag("--verify", flags->verify, "check the hash of every weight, which reads the whole file");
  command->add_option(
      "--device", flags->device,
      "cpu, cuda, cuda:N (which need not be there) or auto: how much of its memory runs would take");
  command->add_option("--size", flags->sizes, "SYMBOL=SIZE, for --device; may be given again")->take_all();
  command->add_flag("--kernels", flags->kernels,
                    "with --device: the kernel that runs each step, and why better ones decline it");
  command
      ->add_option("--disable", flags->disable,
                   "with --device: passes to leave out, and kernels, as kernel:NAME")
      ->delimiter(',');
  flags->memory.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run info model.genesis --states\n"
      "  genesis-run info train.genesis --device cuda --size batch=8 --size seq=1024 --kernels");
  command->callback([flags, command] { info(*flags, *command); });
}

}  // namespace genesis::tools
