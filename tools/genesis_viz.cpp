// genesis-viz: pictures of models, plans and training runs.
#include <spdlog/spdlog.h>

#include <cmath>
#include <iostream>

#include "schema/file/io/atomic_write.h"
#include "schema/file/reader.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/tool.h"
#include "tools/viz/charts.h"
#include "tools/viz/dot.h"
#include "tools/viz/escape.h"
#include "tools/viz/inputs.h"
#include "tools/viz/layout.h"

namespace genesis::tools {
namespace {

constexpr const char* kExamples = R"(Examples:
  genesis-viz model.genesis --entry decode -o decode.svg
  genesis-viz train.genesis --entry train_step --memory --size batch=8 --size seq=256 -o memory.svg
  genesis-viz model.genesis --entry forward --color time --profile profile.json -o hot.svg
  genesis-viz before.genesis --diff after.genesis --entry forward -o diff.html
  genesis-viz --loss metrics.jsonl -o loss.svg)";

struct Flags {
  std::string input, output, entry, color = "op", diff, profile, loss, baseline_name = "baseline";
  std::vector<std::string> sizes;
  double baseline = std::nan(""), layout_seconds = 300;
  bool memory = false, no_fold = false;
  Output out;
};

std::string extension(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(dot + 1);
}

std::string as_html(const std::string& svg, const std::string& title) {
  return "<!doctype html><html><head><meta charset=\"utf-8\"><title>" + viz::xml_text(title) +
         "</title></head><body style=\"margin:0;overflow:auto\">\n" + svg.substr(svg.find("<svg")) +
         "</body></html>\n";
}

// Before any work.
void check_kind(const Flags& flags) {
  const std::string kind = extension(flags.output);
  if (kind == "svg" || kind == "html") return;
  if (flags.memory || !flags.loss.empty())
    fail("-o {}: this picture is written as .svg or .html", flags.output);
  if (kind != "png" && kind != "dot")
    fail("-o {}: expected a name that ends in .svg, .png, .dot or .html", flags.output);
}

void write_svg(const Flags& flags, const std::string& svg, const std::string& title) {
  write_file_atomically(flags.output, extension(flags.output) == "html" ? as_html(svg, title) : svg);
}

viz::Color parse_color(const std::string& name) {
  if (name == "op") return viz::Color::kOp;
  if (name == "dtype") return viz::Color::kDtype;
  if (name == "memory") return viz::Color::kMemory;
  if (name == "time") return viz::Color::kTime;
  fail("--color {}: expected op, dtype, memory or time", name);
}

void draw_loss(const Flags& flags) {
  write_svg(flags,
            viz::curve_svg(viz::read_curve(flags.loss), "loss of " + flags.loss, flags.baseline,
                           flags.baseline_name),
            "loss");
}

void draw_memory(const Flags& flags, const std::shared_ptr<const Model>& model, const std::string& entry) {
  Session session(model);
  const Bindings sizes = parse_sizes(flags.sizes);
  check_sizes_exist(*model, sizes);
  check_sizes_known(model->entry(entry), sizes);
  write_svg(flags, viz::memory_svg(session.plan(entry, sizes)), entry);
}

// Microseconds by node. What a profile tells of nodes that are not drawn is said: a session optimises a graph
// before it runs it, and the picture is of the graph as the file has it.
std::map<std::string, double> times_of(const Graph& graph, const std::string& path) {
  std::map<std::string, double> times = viz::read_times(path);
  double all = 0, drawn = 0;
  for (const auto& [name, us] : times) all += us;
  for (const Node& node : graph.nodes())
    if (const auto at = times.find(node.name); at != times.end()) drawn += at->second;
  if (!(drawn > 0))
    fail(
        "{} tells the time of no node of entry point '{}': make a profile of this model and entry point, "
        "without "
        "--by-op",
        path, graph.name());
  if (drawn < all)
    spdlog::info(
        "{:.0f}% of the profile's time is of nodes in the picture; the others came from optimising: draw the "
        "file that genesis-opt writes to see them",
        100 * drawn / all);
  return times;
}

void write_graph(const Flags& flags, const viz::Dot& dot, const std::string& title) {
  const std::string kind = extension(flags.output);
  if (kind == "dot") return write_file_atomically(flags.output, dot.text);
  const std::string picture = viz::lay_out(
      dot.text,
      {.format = kind == "png" ? "png" : "svg", .boxes = dot.boxes, .seconds = flags.layout_seconds});
  write_file_atomically(flags.output, kind == "html" ? as_html(picture, title) : picture);
}

void draw_graph(const Flags& flags, const Model& model, const std::string& entry) {
  const Graph& graph = model.entry(entry);
  viz::DotOptions options{.color = parse_color(flags.color), .fold = !flags.no_fold, .title = entry};
  options.sizes = parse_sizes(flags.sizes);
  check_sizes_exist(model, options.sizes);
  if (options.color == viz::Color::kMemory) check_sizes_known(graph, options.sizes);
  if (options.color == viz::Color::kTime) options.times_us = times_of(graph, flags.profile);
  write_graph(flags, viz::to_dot(graph, options), entry);
}

nlohmann::ordered_json draw_difference(const Flags& flags, const Model& model, const std::string& entry) {
  const std::unique_ptr<const Model> other = load_model(flags.diff);
  if (!other->find_entry(entry))
    fail("{} has no entry point '{}', which {} has", flags.diff, entry, flags.input);
  const Graph &before = model.entry(entry), &after = other->entry(entry);
  const viz::Difference difference(before, after);
  const std::string title = fmt::format("{}: from {} to {}", entry, flags.input, flags.diff);
  write_graph(
      flags,
      viz::to_dot(before,
                  {.fold = !flags.no_fold, .after = &after, .difference = &difference, .title = title}),
      title);
  return {{"same", difference.count(viz::Change::kSame)},
          {"added", difference.count(viz::Change::kAdded)},
          {"gone", difference.count(viz::Change::kGone)},
          {"changed", difference.count(viz::Change::kChanged)}};
}

nlohmann::ordered_json draw_model(const Flags& flags) {
  if (flags.input.empty()) throw CLI::RequiredError("a model file");
  if (flags.color == "time" && flags.profile.empty())
    throw CLI::RequiredError("--color time: --profile FILE");
  const std::shared_ptr<const Model> model = load_model(flags.input);
  if (model->entries().empty()) fail("{} has no entry points to draw", flags.input);
  const std::string entry = flags.entry.empty() ? model->entries().front()->name() : flags.entry;
  if (!flags.diff.empty()) return draw_difference(flags, *model, entry);
  if (flags.memory)
    draw_memory(flags, model, entry);
  else
    draw_graph(flags, *model, entry);
  return nullptr;
}

// Everything that is given does something to the picture.
void check_flags(const Flags& flags, const CLI::App& app) {
  if (std::isnan(flags.baseline)) check_not_given(app, "--baseline-name", "without --baseline");
  if (!flags.loss.empty())
    return check_only(app, {"--loss", "--output", "--baseline", "--baseline-name", "--json"}, "with --loss");
  for (const char* option : {"--baseline", "--baseline-name"}) check_not_given(app, option, "without --loss");
  if (flags.memory)
    return check_only(app, {"input", "--output", "--entry", "--memory", "--size", "--json"}, "with --memory");
  if (flags.color != "memory") check_not_given(app, "--size", "without --memory or --color memory");
  if (flags.color != "time") check_not_given(app, "--profile", "without --color time");
}

void run(const Flags& flags) {
  if (flags.output.empty()) throw CLI::RequiredError("-o FILE.svg|.png|.dot|.html");
  check_can_write(flags.output);
  check_kind(flags);
  nlohmann::ordered_json counts;  // of --diff
  if (flags.loss.empty())
    counts = draw_model(flags);
  else
    draw_loss(flags);
  nlohmann::ordered_json said{{"output", flags.output}};
  if (!counts.is_null()) said["nodes"] = counts;
  flags.out.print(said, [&] {
    std::cout << "saved " << printable(flags.output) << "\n";
    if (!counts.is_null())
      std::cout << fmt::format("nodes: {} the same, {} added, {} gone, {} changed\n",
                               counts["same"].get<size_t>(), counts["added"].get<size_t>(),
                               counts["gone"].get<size_t>(), counts["changed"].get<size_t>());
  });
}

}  // namespace
}  // namespace genesis::tools

int main(int argc, char** argv) {
  using namespace genesis::tools;
  Flags flags;
  return run_tool(
      argc, argv, "genesis-viz", "Draws models, memory plans and training runs.", kExamples,
      [&](CLI::App& app) {
        app.add_option("input", flags.input, "a .genesis file");
        app.add_option("-o,--output", flags.output, "FILE.svg, .png, .dot or .html");
        app.add_option("--entry", flags.entry, "entry point; the first when not given");
        CLI::Option* color =
            app.add_option("--color", flags.color, "op, dtype, memory or time")->capture_default_str();
        app.add_option("--size", flags.sizes, "SYMBOL=SIZE, for --color memory and --memory")->take_all();
        app.add_option("--profile", flags.profile,
                       "output of `genesis-run profile --json`, for --color time");
        CLI::Option* diff = app.add_option(
            "--diff", flags.diff, "the model as it is later: nodes added, gone and changed are coloured");
        CLI::Option* memory =
            app.add_flag("--memory", flags.memory, "draw the memory plan instead of the graph");
        app.add_flag("--no-fold", flags.no_fold, "draw every node of repeated layers");
        add_number(app, "--layout-seconds", flags.layout_seconds, "the longest that Graphviz may take",
                   {.least = 0, .without_least = true});
        CLI::Option* loss = app.add_option("--loss", flags.loss, "draw the loss curve of this metrics.jsonl");
        diff->excludes(color)->excludes(memory);
        loss->excludes(diff)->excludes(memory)->excludes(color);
        add_number(app, "--baseline", flags.baseline, "a line to hold the loss against")->default_str("");
        app.add_option("--baseline-name", flags.baseline_name, "its name")->capture_default_str();
        flags.out.add_to(app);
        app.callback([&] {
          check_flags(flags, app);
          run(flags);
        });
      });
}
