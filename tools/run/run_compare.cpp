// genesis-run compare: runs an entry point with two sets of options and finds the first node whose values differ.
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include "executor/runtime/device.h"
#include "executor/switches.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/reader.h"
#include "tools/common/json_values.h"
#include "tools/common/meant_words.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/run/rounding.h"
#include "tools/run/run_commands.h"
#include "tools/run/run_inputs.h"
#include "tools/viz/data/model_data.h"
#include "tools/viz/data/numerics_data.h"
#include "tools/viz/data/page_data.h"
#include "tools/viz/page_file.h"

namespace genesis::tools {
namespace {

struct CompareFlags {
  std::string file, entry = "forward", a = "optimize=off", b, repro, page;
  double tolerance = -1;  // -1: derived from what the two runs promise
  InputFlags inputs;
  Output out;
};

// Parses "threads=1,optimize=off,disable=cse+simplify,device=cpu". A device may stand without "device=".
SessionOptions parse_options(const std::string& text) {
  SessionOptions options;
  std::set<std::string> given;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    if (item == "auto" || find_device_kind(item)) item.insert(0, "device=");
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals),
                      value = equals == std::string::npos ? "" : item.substr(equals + 1);
    const bool on = value == "on";
    if (key != "device" && key != "threads" && key != "disable" && value != "on" && value != "off")
      fail_usage(
          "option '{}'{}: expected cpu, cuda, auto, threads=, disable=PASS+kernel:NAME, optimize=on|off",
          item, meant_value(key, {"device", "threads", "disable", "optimize", "cpu", "cuda", "auto"}));
    if (key == "device")
      check_device("option device", value), options.device = value;
    else if (key == "threads")
      options.threads =
          number_or_fail<int>("option 'threads=" + value + "'", value, Range<int>{0, kMaxThreads});
    else if (key == "optimize" || key == "optimise")
      options.optimize = on;
    else if (key == "disable") {
      std::istringstream passes(value);
      for (std::string pass; std::getline(passes, pass, '+');) options.disabled.insert(pass);
    } else
      fail_usage("option '{}' is not known: expected device, threads, optimize or disable", key);
    if (!given.insert(key).second) fail_usage("option '{}' is given twice in '{}'", key, text);
  }
  check_options(options);
  options.device =
      resolve_device(options.device);  // resolved, because promise_same_bits() compares device names
  return options;
}

struct Seen {
  const Step* step;
  Tensor value;
  double error = 0;  // relative error that rounding may explain
};

// Returns true if the runs must give the same bits. The number of threads and the planning options never change a
// bit; passes and devices may round differently.
bool promise_same_bits(const SessionOptions& a, const SessionOptions& b) {
  const auto passes_of = [](const SessionOptions& options) {
    std::set<std::string> names = options.disabled;
    for (const auto& name : step_switches()) names.erase(std::string(name));
    return names;
  };
  return a.device == b.device && a.optimize == b.optimize && passes_of(a) == passes_of(b);
}

// Returns true if both sides computed the same value. A node keeps its name when a pass extends it: a matrix product
// that also takes an addend gives another value.
bool same_value(const Seen& seen, const Step& step, const Tensor& got) {
  return seen.value.type() == got.type() &&
         (seen.step->op != step.op || seen.step->inputs.size() == step.inputs.size());
}

struct Difference {
  std::string node, op;
  double worst = 0, tolerance = 0;
  int64_t element = 0;
  double a = 0, b = 0;
};

// |a - b| / max(least, |a|) may be at most `relative`.
struct Tolerance {
  double relative = 0, least = 1;
};

// `error`: the error that rounding may explain on both sides together.
Tolerance tolerance_of(const CompareFlags& flags, bool by_rounding, double error,
                       std::span<const double> elements) {
  if (!by_rounding) return Tolerance{std::max(flags.tolerance, 0.0)};
  return Tolerance{kRoundingSafety * error, std::max(root_mean_square(elements), 1e-30)};
}

// Returns the largest error between two values, whether it is tolerated or not.
Difference compare(const Step& step, const Tensor& expected, const Tensor& got,
                   const std::function<Tolerance(std::span<const double> a)>& tolerance_of) {
  const std::vector<double> a = expected.to_doubles(), b = got.to_doubles();
  const Tolerance tolerance = tolerance_of(a);
  Difference difference{step.name, std::string(step.op->name()), 0, tolerance.relative};
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    double error = std::abs(a[i] - b[i]) / std::max(tolerance.least, std::abs(a[i]));
    if (std::isnan(error)) error = INFINITY;
    if (error <= difference.worst) continue;
    difference.worst = error;
    difference.element = static_cast<int64_t>(i);
    difference.a = a[i];
    difference.b = b[i];
  }
  return difference;
}

// Returns the criterion in words, for the end of the report.
std::string criterion(const CompareFlags& flags, bool same_bits) {
  if (flags.tolerance > 0) return fmt::format("by more than {}", flags.tolerance);
  return same_bits || flags.tolerance == 0 ? "in any bit" : "by more than rounding explains";
}

// Writes the data that reproduces the difference: the inputs of the step, and the results of both runs.
void write_repro(const std::string& path, const Step& step, std::span<const TensorView> inputs,
                 const Tensor& expected, const Tensor& got) {
  SafeTensors repro;
  for (size_t k = 0; k < inputs.size(); ++k) repro.tensors["input" + std::to_string(k)] = copy_of(inputs[k]);
  repro.tensors["expected"] = expected;
  repro.tensors["got"] = got;
  repro.metadata = {{"node", printable(step.name)},  // JSON metadata must be UTF-8
                    {"op", std::string(step.op->name())},
                    {"attributes", printable(step.attributes.to_string())}};
  write_safetensors(path, repro);
}

// Describes the difference in a sentence.
std::string message_of(const Difference& first, const std::string& criterion) {
  return fmt::format(
      "the first node that differs {} is '{}' ({}): element {} is {} against {}, error {:.3g}, allowed "
      "{:.3g}",
      criterion, printable(first.node), first.op, first.element, first.a, first.b, first.worst,
      first.tolerance);
}

viz::FirstDifference shown(const Difference& first, const viz::ComparedValue& value,
                           const std::string& criterion, const Tensor& a, const Tensor& b) {
  return {value, first.element, message_of(first, criterion), a.to_doubles(), b.to_doubles()};
}

// Writes the page of genesis-viz with every compared value, and the distributions of the first differing value on
// both sides.
void write_page(const CompareFlags& flags, const Model& model, const Bindings& sizes,
                const viz::Comparison& comparison) {
  if (flags.page.empty()) return;
  viz::Tables tables(sizes);
  viz::ModelOptions options{.entries = {flags.entry}, .sizes = sizes};
  options.entry.budgets = false;
  viz::PageParts parts{.title = std::filesystem::path(flags.file).filename().string() + ", compared",
                       .view = "numerics"};
  parts.models.push_back(viz::model_data(model, flags.file, options, tables));
  parts.numerics = viz::numerics_data(comparison, tables);
  viz::write_page(flags.page, viz::page_data(std::move(parts), tables));
}

void report(const CompareFlags& flags, const std::optional<Difference>& first, int64_t compared,
            const nlohmann::ordered_json& tolerance, const std::string& criterion) {
  nlohmann::ordered_json json{
      {"compared", compared}, {"differs", first.has_value()}, {"tolerance", tolerance}};
  if (first)
    json["first"] = {
        {"node", first->node},           {"op", first->op},           {"error", number_json(first->worst)},
        {"tolerance", first->tolerance}, {"element", first->element}, {"a", number_json(first->a)},
        {"b", number_json(first->b)}};
  flags.out.print(json, [&] {
    if (!first)
      std::cout << fmt::format("{} values compared: none differs {}{}\n", compared, criterion,
                               flags.repro.empty() ? "" : "; there is nothing to write to --repro");
    else
      std::cout << message_of(*first, criterion)
                << (flags.repro.empty() ? "" : "; its data is in " + printable(flags.repro)) << "\n";
  });
}

std::string key_of(const Step& step, size_t output) { return step.name + ":" + std::to_string(output); }

std::vector<double> errors_of(bool by_rounding, Rounding& rounding, const Step& step,
                              std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  return by_rounding ? rounding.step(step, inputs, outputs) : std::vector<double>(outputs.size());
}

// Returns every value that a run computes, by node and output number. `step` points into the session.
std::map<std::string, Seen> observe_all(Session& session, const CompareFlags& flags,
                                        const NamedTensors& inputs, bool by_rounding) {
  std::map<std::string, Seen> values;
  Rounding rounding;
  session.observe(flags.entry, inputs, [&](const Step& step, auto step_inputs, auto outputs) {
    const std::vector<double> errors = errors_of(by_rounding, rounding, step, step_inputs, outputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      values[key_of(step, i)] = {&step, copy_of(outputs[i]), errors[i]};
  });
  return values;
}

void compare_command(CompareFlags flags) {
  check_can_write(flags.repro);
  check_can_write(flags.page);
  const SessionOptions options_a = parse_options(flags.a), options_b = parse_options(flags.b);
  const bool same_bits = promise_same_bits(options_a, options_b);
  const bool by_rounding = flags.tolerance < 0 && !same_bits;
  flags.file = model_file(flags.file);
  const std::shared_ptr<const Model> model = load_model(flags.file);
  const NamedTensors inputs = flags.inputs.make(model->entry(flags.entry));
  Session a(model, options_a);
  const std::map<std::string, Seen> values = observe_all(a, flags, inputs, by_rounding);
  Rounding rounding;
  Session b(model, options_b);
  std::optional<Difference> first;
  viz::Comparison comparison{flags.entry, flags.a, flags.b, criterion(flags, same_bits)};
  b.observe(flags.entry, inputs, [&](const Step& step, auto step_inputs, auto outputs) {
    const std::vector<double> errors = errors_of(by_rounding, rounding, step, step_inputs, outputs);
    for (size_t i = 0; i < outputs.size() && !first; ++i) {
      const auto expected = values.find(key_of(step, i));
      const Tensor got = copy_of(outputs[i]);
      if (expected == values.end() || !same_value(expected->second, step, got)) continue;
      const Difference found =
          compare(step, expected->second.value, got, [&](std::span<const double> elements) {
            return tolerance_of(flags, by_rounding, std::hypot(expected->second.error, errors[i]), elements);
          });
      comparison.values.push_back({step.name, step.authored, found.op, found.worst, found.tolerance});
      if (!(found.worst > found.tolerance)) continue;
      first = found;
      comparison.first = {
          shown(found, comparison.values.back(), comparison.criterion, expected->second.value, got)};
      if (!flags.repro.empty()) write_repro(flags.repro, step, step_inputs, expected->second.value, got);
    }
  });
  const nlohmann::ordered_json tolerance =
      by_rounding ? nlohmann::ordered_json("rounding") : number_json(std::max(flags.tolerance, 0.0));
  write_page(flags, *model, b.plan(flags.entry, inputs).bindings, comparison);
  report(flags, first, static_cast<int64_t>(comparison.values.size()), tolerance, comparison.criterion);
  if (first) throw ExitCode(1);
}

}  // namespace

void add_compare(Command& app) {
  auto flags = std::make_shared<CompareFlags>();
  Command* command = app.add_subcommand(
      "compare", "find the first node whose values differ between two runs with different options");
  command->add_option("file", flags->file, kModelName)->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  command
      ->add_option("--a", flags->a,
                   "options of the first run: cpu, cuda, cuda:N or auto, threads=, optimize=on|off, "
                   "disable=PASS+kernel:NAME")
      ->capture_default_str();
  command->add_option("--b", flags->b, "options of the second run");
  add_number(*command, "--tolerance", flags->tolerance, "largest |a - b| / max(1, |a|) that counts as equal",
             at_least<double>(0))
      ->default_str("see below");
  command->add_option("--repro", flags->repro,
                      "write the node's inputs and both results to this .safetensors file");
  command->add_option("-o,--output", flags->page,
                      "write a page for a browser with all errors and the values that differ: FILE.html, or "
                      "FILE.json for its data alone");
  flags->inputs.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run compare model.genesis --entry loss --a optimize=off,threads=1 --b threads=4 "
      "--tolerance 1e-5\n"
      "  genesis-run compare model.genesis --a cpu --b cuda\n"
      "  genesis-run compare model.genesis --b disable=fuse_linear -o numerics.html\n"
      "Without --tolerance, runs that differ in threads or memory planning only must give the same bits. "
      "Runs on\n"
      "different devices or with different passes may differ by rounding: a step adds 2u + v sqrt(k) to the\n"
      "relative error of its result (u half an ulp of its dtype, v of the dtype it sums in, k the terms of a "
      "sum),\n"
      "errors of inputs come on top by squares, and 16 times that is allowed, relative to the element or to "
      "the\n"
      "root mean square of its tensor. Adam and Lion may turn a gradient that is nothing but rounding into a "
      "full\n"
      "step of the learning rate.");
  command->callback([flags] { compare_command(*flags); });
}

}  // namespace genesis::tools
