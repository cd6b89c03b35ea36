// genesis-viz: draws pages and pictures of models, plans and training runs.
#include <cmath>
#include <filesystem>
#include <iostream>

#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "passes/distribution/rank_sizes.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/reader.h"
#include "schema/messages/log.h"
#include "tools/common/file_progress.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/common/tool.h"
#include "tools/viz/data/mesh_data.h"
#include "tools/viz/files/inputs.h"
#include "tools/viz/make_page.h"
#include "tools/viz/other_formats/other_format_data.h"
#include "tools/viz/page_file.h"
#include "tools/viz/pictures/charts.h"
#include "tools/viz/pictures/dot.h"
#include "tools/viz/pictures/layout.h"
#include "tools/viz/pictures/timeline_chart.h"
#include "tools/viz/serve/watch.h"

namespace genesis::tools {
namespace {

constexpr const char* kExamples = R"(Examples:
  genesis-viz model.genesis -o model.html
  genesis-viz train.genesis --entry train_step --size batch=8 --size seq=256 -o train.html
  genesis-viz model.genesis --entry decode -o decode.svg
  genesis-viz train.genesis --entry train_step --memory --size batch=8 --size seq=256 -o memory.svg
  genesis-viz model.genesis --entry forward --color time --profile profile.json -o hot.svg
  genesis-viz before.genesis --compare after.genesis --entry forward -o diff.svg
  genesis-viz train.genesis --compare other.genesis -o diff.html
  genesis-viz train.genesis --entry train_step --memory --mesh data=4 --size batch=8 --size seq=256 -o ranks.svg
  genesis-viz --trace trace.json -o timeline.svg
  genesis-viz --loss metrics.jsonl -o loss.svg
  genesis-viz --loss run/metrics.jsonl --loss other/metrics.jsonl -o runs.html
  genesis-viz watch run/)";

struct Flags {
  std::string input, output, entry, color = "op", device = "cpu", diff, profile, trace,
                                    baseline_name = "baseline";
  std::vector<std::string> sizes, loss, disable;
  double baseline = std::nan(""), layout_seconds = 300;
  std::string mesh;
  int zero = 0;
  bool memory = false, no_fold = false, graph_only = false, values = false, quiet = false;
  Output out;
};

std::string extension(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(dot + 1);
}

// Returns true if the output is a page for a browser, or only its data (JSON).
bool is_page(const Flags& flags) {
  return extension(flags.output) == "html" || extension(flags.output) == "json";
}

// Checks the output's file ending before any work.
void check_kind(const Flags& flags) {
  const std::string kind = extension(flags.output);
  if (kind == "svg" || is_page(flags)) return;
  if (flags.memory || !flags.loss.empty() || !flags.trace.empty())
    fail_usage("-o {}: this picture is written as .svg or .html", flags.output);
  if (kind != "png" && kind != "pdf" && kind != "dot")
    fail_usage("-o {}: expected a name that ends in .html, .svg, .png, .pdf, .dot or .json", flags.output);
}

viz::Color parse_color(const std::string& name) {
  if (name == "op") return viz::Color::kOp;
  if (name == "dtype") return viz::Color::kDtype;
  if (name == "memory") return viz::Color::kMemory;
  if (name == "time") return viz::Color::kTime;
  fail_usage("--color {}: expected op, dtype, memory or time", name);
}

void draw_loss(const Flags& flags) {
  write_file_atomically(flags.output,
                        viz::losses_svg(viz::read_losses(flags.loss.front()), "loss of " + flags.loss.front(),
                                        flags.baseline, flags.baseline_name));
}

void draw_trace(const Flags& flags) {
  write_file_atomically(flags.output, viz::timeline_svg(viz::read_trace(flags.trace)));
}

// Draws the memory of each rank of a mesh.
void draw_ranks(const Flags& flags, const Model& model, const std::string& entry, const Bindings& sizes) {
  SessionOptions session{.device = resolve_device(flags.device),
                         .disabled = {flags.disable.begin(), flags.disable.end()}};
  session.mesh = Mesh::parse(flags.mesh);
  session.zero = flags.zero;
  const Bindings of_rank = passes::sizes_of_rank(model.entry(entry), sizes, session.mesh);
  const Plan plan = compile_entry(model, entry, of_rank, target_of(session.device), session).plan;
  write_file_atomically(flags.output,
                        viz::ranks_svg(entry, viz::mesh_data(model, entry, of_rank, session, plan)));
}

void draw_memory(const Flags& flags, const std::shared_ptr<const Model>& model, const std::string& entry) {
  const Bindings sizes = parse_sizes(flags.sizes);
  check_sizes_exist(*model, sizes);
  check_sizes_known(model->entry(entry), sizes);
  if (!flags.mesh.empty()) return draw_ranks(flags, *model, entry, sizes);
  Session session(model, {.disabled = {flags.disable.begin(), flags.disable.end()}});
  write_file_atomically(flags.output, viz::memory_svg(session.plan(entry, sizes)));
}

// Returns microseconds by node name. Logs the share of the profile's time that belongs to nodes not in the picture: a
// session optimizes a graph before it runs it, and the picture shows the graph as it is in the file.
std::map<std::string, double> times_of(const Graph& graph, const std::string& path) {
  std::map<std::string, double> times = viz::read_times(path);
  double all = 0, drawn = 0;
  for (const auto& [name, us] : times) all += us;
  for (const Node& node : graph.nodes())
    if (const auto at = times.find(node.name); at != times.end()) drawn += at->second;
  if (!(drawn > 0))
    fail(
        "{} tells the time of no node of entry point '{}': make a profile of this model and entry point, "
        "without --by-op",
        path, graph.name());
  if (drawn < all)
    log_info(
        "{:.0f}% of the profile's time is of nodes in the picture; the others came from optimizing: draw the "
        "file that genesis-opt writes to see them",
        100 * drawn / all);
  return times;
}

void write_graph(const Flags& flags, const viz::Dot& dot) {
  const std::string kind = extension(flags.output);
  if (kind == "dot") return write_file_atomically(flags.output, dot.text);
  write_file_atomically(
      flags.output,
      viz::lay_out(dot.text, {.format = kind, .boxes = dot.boxes, .seconds = flags.layout_seconds}));
}

void draw_graph(const Flags& flags, const Model& model, const std::string& entry) {
  const Graph& graph = model.entry(entry);
  viz::DotOptions options{.color = parse_color(flags.color), .fold = !flags.no_fold, .title = entry};
  options.sizes = parse_sizes(flags.sizes);
  check_sizes_exist(model, options.sizes);
  if (options.color == viz::Color::kMemory) check_sizes_known(graph, options.sizes);
  if (options.color == viz::Color::kTime) options.times_us = times_of(graph, flags.profile);
  write_graph(flags, viz::to_dot(graph, options));
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
                  {.fold = !flags.no_fold, .after = &after, .difference = &difference, .title = title}));
  return {{"same", difference.count(viz::Change::kSame)},
          {"added", difference.count(viz::Change::kAdded)},
          {"gone", difference.count(viz::Change::kGone)},
          {"changed", difference.count(viz::Change::kChanged)}};
}

nlohmann::ordered_json draw_model(const Flags& flags) {
  if (flags.input.empty()) fail_missing("a model file");
  if (viz::is_other_format(flags.input))
    fail("{}: files of other programs are shown in a page: name -o FILE.html instead of {}", flags.input,
         flags.output);
  if (flags.color == "time" && flags.profile.empty()) fail_missing("--color time: --profile FILE");
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

void make_page(const Flags& flags, const OnProgress& progress) {
  if (flags.input.empty() && flags.loss.empty()) fail_missing("a model file, or --loss FILE");
  viz::write_page(flags.output, viz::make_page({.input = flags.input,
                                                .compare = flags.diff,
                                                .metrics = flags.loss,
                                                .entry = flags.entry,
                                                .device = flags.device,
                                                .disable = {flags.disable.begin(), flags.disable.end()},
                                                .view = flags.memory ? "memory" : "",
                                                .sizes = parse_sizes(flags.sizes),
                                                .mesh = flags.mesh,
                                                .zero = flags.zero,
                                                .graph_only = flags.graph_only,
                                                .values = flags.values,
                                                .progress = progress}));
}

// Checks that every given option has an effect on the page, or on the picture.
void check_page_flags(const Flags& flags, const Command& app) {
  check_rules(app, {{true,
                     {"input", "--output", "--entry", "--size", "--device", "--mesh", "--zero", "--memory",
                      "--compare", "--loss", "--graph-only", "--values", "--disable", "--json", "--quiet"},
                     "in a page",
                     OptionRule::kAllBut},
                    {flags.graph_only, {"--mesh", "--disable"}, "with --graph-only, which makes no plan"},
                    {flags.input.empty(),
                     {"--entry", "--size", "--device", "--mesh", "--memory", "--compare", "--graph-only",
                      "--values", "--disable"},
                     "without a model"}});
}

void check_picture_flags(const Flags& flags, const Command& app) {
  const bool of_loss = flags.trace.empty() && !flags.loss.empty(),
             of_memory = flags.trace.empty() && !of_loss && flags.memory,
             of_graph = flags.trace.empty() && !of_loss && !of_memory;
  check_rules(app,
              {{true, {"--graph-only", "--values"}, "in a picture"},
               {!flags.memory || flags.mesh.empty(),
                {"--device", "--mesh"},
                "in a picture, but with --memory --mesh"},
               {!flags.memory, {"--disable"}, "in a picture, but with --memory"},
               {!flags.trace.empty(),
                {"--trace", "--output", "--json", "--quiet"},
                "with --trace",
                OptionRule::kAllBut}});
  if (of_loss && flags.loss.size() > 1)
    fail_usage("a picture shows one --loss; a page (-o FILE.html) shows several");
  check_rules(app,
              {{flags.trace.empty() && std::isnan(flags.baseline), {"--baseline-name"}, "without --baseline"},
               {of_loss,
                {"--loss", "--output", "--baseline", "--baseline-name", "--json", "--quiet"},
                "with --loss",
                OptionRule::kAllBut},
               {of_memory || of_graph, {"--baseline", "--baseline-name"}, "without --loss"},
               {of_memory,
                {"input", "--output", "--entry", "--memory", "--size", "--mesh", "--zero", "--device",
                 "--disable", "--json", "--quiet"},
                "with --memory",
                OptionRule::kAllBut},
               {of_graph && flags.color != "memory", {"--size"}, "without --memory or --color memory"},
               {of_graph && flags.color != "time", {"--profile"}, "without --color time"}});
}

void check_flags(const Flags& flags, const Command& app) {
  is_page(flags) ? check_page_flags(flags, app) : check_picture_flags(flags, app);
}

// Makes the page or the picture. Returns how many nodes of --compare differ, if the picture shows that.
nlohmann::ordered_json make(const Flags& flags) {
  FileProgress work(flags.quiet, /*repeats=*/true);
  if (is_page(flags)) {
    make_page(flags, work.hook());
    return nullptr;
  }
  work.update("drawing " + flags.output);
  if (!flags.trace.empty())
    draw_trace(flags);
  else if (flags.loss.empty())
    return draw_model(flags);
  else
    draw_loss(flags);
  return nullptr;
}

void run(Flags flags) {
  if (flags.output.empty()) fail_missing("-o FILE.html|.svg|.png|.pdf|.dot");
  check_can_write(flags.output);
  check_kind(flags);
  parse_color(flags.color);
  check_disabled({flags.disable.begin(), flags.disable.end()}, flags.device);
  warn_of_useless_zero(flags.mesh, flags.zero);
  for (std::string* name : {&flags.input, &flags.diff})
    if (std::filesystem::is_directory(*name)) *name = model_file(*name);
  const nlohmann::ordered_json counts = make(flags);
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

void add_graph_flags(Command& app, Flags& flags) {
  app.add_option("--entry", flags.entry,
                 "entry point; when not given, all in a page and the first in a picture");
  Option* color = app.add_option("--color", flags.color, "op, dtype, memory or time")->capture_default_str();
  app.add_option("--size", flags.sizes, "SYMBOL=SIZE, for pages, --color memory and --memory")->take_all();
  app.add_option("--profile", flags.profile, "output of `genesis-run profile --json`, for --color time");
  add_device(app, "--device", flags.device,
             "device of a page's plans and kernels: cpu, cuda, cuda:N (which need not exist here) or auto");
  app.add_option("--disable", flags.disable,
                 "for pages and --memory: leave out these passes, and kernels as kernel:NAME")
      ->delimiter(',');
  Option* mesh =
      add_mesh(app, flags.mesh,
               "such as data=8: show the memory and messages of each rank; --size counts all ranks together");
  add_number(
      app, "--zero", flags.zero,
      "with --mesh: the ranks along data share 1: the optimizer's states, 2: gradients too, 3: weights too",
      Range<int>{0, 3})
      ->needs(mesh);
  Option* diff = app.add_option("--compare,--diff", flags.diff,
                                "a later version of the model: added, removed and changed nodes are colored");
  Option* memory =
      app.add_flag("--memory", flags.memory, "show the memory plan first, or instead of the graph");
  app.add_flag("--graph-only", flags.graph_only,
               "a page of the author's graph alone: no passes, kernels and plans");
  app.add_flag("--values", flags.values, "a page that also shows statistics of the values of all weights");
  app.add_flag("--no-fold", flags.no_fold, "draw every node of repeated layers");
  add_number(app, "--layout-seconds", flags.layout_seconds, "the longest that Graphviz may take",
             {.least = 0, .without_least = true});
  diff->excludes(color)->excludes(memory);
}

void add_loss_flags(Command& app, Flags& flags) {
  app.add_option("--loss", flags.loss,
                 "show the curves of this metrics.jsonl; a page takes several, and folders of them")
      ->take_all();
  add_number(app, "--baseline", flags.baseline, "a line to compare the loss with")->default_str("");
  app.add_option("--trace", flags.trace,
                 "draw a trace of `genesis-run profile --trace`: a track for each thread or stream");
  app.add_option("--baseline-name", flags.baseline_name, "name of the baseline")->capture_default_str();
}

void add_watch(Command& app) {
  auto options = std::make_shared<viz::WatchOptions>();
  auto out = std::make_shared<Output>();
  Command* command =
      app.add_subcommand("watch", "a live page of training runs, for browsers on this machine only");
  command->add_option("path", options->path, "a metrics.jsonl that grows, or a folder of runs")->required();
  add_number(*command, "--port", options->port, "port of 127.0.0.1; 0: any that is free",
             {.least = 0, .most = 65535});
  out->add_to(*command);
  command->footer(
      "Example:\n  genesis-viz watch run/\nThe page's address has a random token in it: nobody else can "
      "guess it.");
  command->callback([options, out] {
    viz::watch(*options, [&](const std::string& url) {
      out->print({{"url", url}}, [&] { std::cout << "open " << url << " in a browser; Ctrl-C ends this\n"; });
      std::cout.flush();
    });
  });
}

}  // namespace
}  // namespace genesis::tools

int main(int argc, char** argv) {
  using namespace genesis::tools;
  Flags flags;
  return run_tool(
      argc, argv, "genesis-viz",
      "Shows models, memory plans and training runs: as pages for a browser and as pictures.", kExamples,
      [&](Command& app) {
        app.add_option("input", flags.input,
                       kModelName + std::string("; for a page also .onnx, .safetensors and .gguf"));
        app.add_option("-o,--output", flags.output,
                       "FILE.html: a page; .svg, .png, .pdf or .dot: a picture; .json: a page's data");
        add_graph_flags(app, flags);
        add_loss_flags(app, flags);
        app.add_flag("--quiet", flags.quiet, "print no progress");
        flags.out.add_to(app);
        add_watch(app);
        app.callback([&] {
          if (app.has_given_subcommand()) return;
          check_flags(flags, app);
          run(flags);
        });
      });
}
