// genesis-run compare: runs an entry point in two ways and finds the first node whose values differ.
#include <charconv>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "schema/file/reader.h"
#include "schema/file/safetensors.h"
#include "tools/run_commands.h"
#include "tools/run_inputs.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file, entry = "forward", a = "optimise=off", b, repro;
  double tolerance = 0;
  InputFlags inputs;
  Output out;
};

int parse_threads(const std::string& text) {
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc() || end != text.data() + text.size())
    fail("option 'threads={}': expected a whole number", text);
  return threads;
}

// "threads=1,optimise=off,disable=cse+simplify,device=cpu" -> options; a device may stand by itself.
SessionOptions parse_options(const std::string& text) {
  SessionOptions options;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    if (item == "cpu" || item.starts_with("cuda")) item.insert(0, "device=");
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals),
                      value = equals == std::string::npos ? "" : item.substr(equals + 1);
    const bool on = value == "on";
    if (key != "device" && key != "threads" && key != "disable" && value != "on" && value != "off")
      fail("option '{}': expected cpu, cuda, threads=, disable=PASS+PASS, optimise=on|off", item);
    if (key == "device")
      options.device = value;
    else if (key == "threads")
      options.threads = parse_threads(value);
    else if (key == "optimise" || key == "optimize")
      options.optimise = on;
    else if (key == "disable") {
      std::istringstream passes(value);
      for (std::string pass; std::getline(passes, pass, '+');) options.disabled_passes.insert(pass);
    } else
      fail("option '{}' is not known: expected device, threads, optimise or disable", key);
  }
  return options;
}

Tensor copy_of(const TensorView& view) {
  const auto sizes = view.sizes();
  return Tensor::copy_of({view.dtype, Shape::of({sizes.begin(), sizes.end()})}, view.data);
}

struct Seen {
  const Step* step;
  Tensor value;
};

// A node keeps its name when a pass lets it do more: a product that takes an addend gives another value.
bool same_value(const Seen& seen, const Step& step, const Tensor& got) {
  return seen.value.type() == got.type() &&
         (seen.step->op != step.op || seen.step->inputs.size() == step.inputs.size());
}

struct Difference {
  std::string node, op;
  double worst = 0;
  int64_t element = 0;
  double a = 0, b = 0;
};

std::optional<Difference> compare(const Step& step, const Tensor& expected, const Tensor& got,
                                  double tolerance) {
  const std::vector<double> a = expected.to_doubles(), b = got.to_doubles();
  Difference difference{step.name, std::string(step.op->name())};
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double error = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(a[i]));
    if (std::isnan(error) || error > difference.worst)
      difference = {step.name, difference.op, std::isnan(error) ? INFINITY : error, static_cast<int64_t>(i),
                    a[i],      b[i]};
  }
  return difference.worst > tolerance ? std::optional(difference) : std::nullopt;
}

void compare_command(const Flags& flags) {
  check_can_write(flags.repro);
  if (!(flags.tolerance >= 0)) fail("--tolerance {}: expected 0 or more", flags.tolerance);
  const std::shared_ptr<const Model> model = load_model(flags.file);
  const NamedTensors inputs = flags.inputs.make(model->entry(flags.entry));
  std::map<std::string, Seen> values;  // of way A, by node and output number
  const auto key = [](const Step& step, size_t i) { return step.name + ":" + std::to_string(i); };
  Session a(model, parse_options(flags.a));
  a.observe(flags.entry, inputs, [&](const Step& step, auto, auto outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) values[key(step, i)] = {&step, copy_of(outputs[i])};
  });
  Session b(model, parse_options(flags.b));
  std::optional<Difference> first;
  int64_t compared = 0;
  b.observe(flags.entry, inputs, [&](const Step& step, auto step_inputs, auto outputs) {
    for (size_t i = 0; i < outputs.size() && !first; ++i) {
      const auto expected = values.find(key(step, i));
      const Tensor got = copy_of(outputs[i]);
      if (expected == values.end() || !same_value(expected->second, step, got)) continue;
      ++compared;
      first = compare(step, expected->second.value, got, flags.tolerance);
      if (!first || flags.repro.empty()) continue;
      SafeTensors repro;
      for (size_t k = 0; k < step_inputs.size(); ++k)
        repro.tensors["input" + std::to_string(k)] = copy_of(step_inputs[k]);
      repro.tensors["expected"] = expected->second.value;
      repro.tensors["got"] = got;
      repro.metadata = {{"node", step.name},
                        {"op", std::string(step.op->name())},
                        {"attributes", step.attributes.to_string()}};
      write_safetensors(flags.repro, repro);
    }
  });
  nlohmann::ordered_json json{{"compared", compared}, {"differs", first.has_value()}};
  if (first)
    json["first"] = {{"node", first->node},       {"op", first->op}, {"error", first->worst},
                     {"element", first->element}, {"a", first->a},   {"b", first->b}};
  flags.out.print(json, [&] {
    if (!first)
      std::cout << fmt::format("{} values compared: none differs by more than {}\n", compared,
                               flags.tolerance);
    else
      std::cout << fmt::format(
          "the first node that differs is '{}' ({}): element {} is {} against {}, error {:.3g}{}\n",
          first->node, first->op, first->element, first->a, first->b, first->worst,
          flags.repro.empty() ? "" : "; its data is in " + flags.repro);
  });
  if (first) throw CLI::RuntimeError(1);
}

}  // namespace

void add_compare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("compare", "find the first node whose values differ between two ways of running");
  command->add_option("file", flags->file, "a .genesis file")->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  command
      ->add_option(
          "--a", flags->a,
          "options of the first run: cpu, cuda or cuda:N, threads=, optimise=on|off, disable=PASS+PASS")
      ->capture_default_str();
  command->add_option("--b", flags->b, "options of the second run");
  command->add_option("--tolerance", flags->tolerance, "largest |a - b| / max(1, |a|) that counts as equal")
      ->capture_default_str();
  command->add_option("--repro", flags->repro,
                      "write the node's inputs and both results to this .safetensors file");
  flags->inputs.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run compare model.genesis --entry loss --a optimise=off,threads=1 --b threads=4 "
      "--tolerance 1e-5\n"
      "  genesis-run compare model.genesis --a cpu --b cuda --tolerance 1e-3");
  command->callback([flags] { compare_command(*flags); });
}

}  // namespace genesis::tools
