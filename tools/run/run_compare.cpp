// genesis-run compare: runs an entry point with two sets of options and finds the first node whose values differ.
#include <cmath>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>

#include "executor/inspection/compare_runs.h"
#include "executor/runtime/device.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/reader.h"
#include "tools/common/json_values.h"
#include "tools/common/meant_words.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/run/run_commands.h"
#include "tools/run/run_inputs.h"
#include "tools/viz/run_pages.h"

namespace genesis::tools {
namespace {

struct CompareFlags {
  std::string file, a = "optimize=off", b, repro, page;
  CompareOptions options;
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
  options.device = resolve_device(options.device);
  return options;
}

// Returns the criterion in words, for the end of the report.
std::string criterion(const CompareOptions& options) {
  if (options.tolerance > 0) return fmt::format("by more than {}", options.tolerance);
  return options.promise_same_bits() || options.tolerance == 0 ? "in any bit"
                                                               : "by more than rounding explains";
}

// Writes the data that reproduces the difference: the inputs of the step, and the results of both runs.
void write_repro(const std::string& path, const DifferingStep& at) {
  SafeTensors repro;
  for (size_t k = 0; k < at.inputs.size(); ++k)
    repro.tensors["input" + std::to_string(k)] = copy_of(at.inputs[k]);
  repro.tensors["expected"] = at.expected;
  repro.tensors["got"] = at.got;
  repro.metadata = {{"node", printable(at.step.name)},  // JSON metadata must be UTF-8
                    {"op", std::string(at.step.op->name())},
                    {"attributes", printable(at.step.attributes.to_string())}};
  write_safetensors(path, repro);
}

// Describes the difference in a sentence.
std::string message_of(const ComparedNode& first, const std::string& criterion) {
  return fmt::format(
      "the first node that differs {} is '{}' ({}): element {} is {} against {}, error {:.3g}, allowed "
      "{:.3g}",
      criterion, printable(first.node), first.op, first.element, first.a, first.b, first.worst,
      first.tolerance);
}

void report(const CompareFlags& flags, const std::optional<ComparedNode>& first, int64_t compared,
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

void compare_command(CompareFlags flags) {
  check_can_write(flags.repro);
  check_can_write(flags.page);
  CompareOptions& options = flags.options;
  options.a = parse_options(flags.a), options.b = parse_options(flags.b);
  flags.file = model_file(flags.file);
  const std::shared_ptr<const Model> model = load_model(flags.file);
  const NamedTensors inputs = flags.inputs.make(model->entry(options.entry));
  viz::Comparison page{options.entry, flags.a, flags.b, criterion(options)};
  const RunComparison compared = compare_runs(model, inputs, options, [&](const DifferingStep& at) {
    page.first = {{{}, 0, "", at.expected.to_doubles(), at.got.to_doubles()}};
    if (!flags.repro.empty()) write_repro(flags.repro, at);
  });
  for (const ComparedNode& value : compared.values)
    page.values.push_back({value.node, value.author, value.op, value.worst, value.tolerance});
  if (compared.first) {
    page.first[0].value = page.values.back();
    page.first[0].element = compared.first->element;
    page.first[0].message = message_of(*compared.first, page.criterion);
  }
  const nlohmann::ordered_json tolerance = options.by_rounding()
                                               ? nlohmann::ordered_json("rounding")
                                               : number_json(std::max(options.tolerance, 0.0));
  if (!flags.page.empty()) viz::write_comparison_page(flags.page, *model, flags.file, compared.sizes, page);
  report(flags, compared.first, static_cast<int64_t>(compared.values.size()), tolerance, page.criterion);
  if (compared.first) throw ExitCode(1);
}

}  // namespace

void add_compare(Command& app) {
  auto flags = std::make_shared<CompareFlags>();
  Command* command = app.add_subcommand(
      "compare", "find the first node whose values differ between two runs with different options");
  command->add_option("file", flags->file, kModelName)->required();
  command->add_option("--entry", flags->options.entry, "entry point")->capture_default_str();
  command
      ->add_option("--a", flags->a,
                   "options of the first run: cpu, cuda, cuda:N or auto, threads=, optimize=on|off, "
                   "disable=PASS+kernel:NAME")
      ->capture_default_str();
  command->add_option("--b", flags->b, "options of the second run");
  add_number(*command, "--tolerance", flags->options.tolerance,
             "largest |a - b| / max(1, |a|) that counts as equal", at_least<double>(0))
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
