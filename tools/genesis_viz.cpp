// genesis-viz: pictures of models, plans and training runs.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "models/data/sources.h"
#include "schema/file/reader.h"
#include "tools/tool.h"
#include "tools/viz/charts.h"
#include "tools/viz/dot.h"

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
  double baseline = std::nan("");
  bool memory = false, no_fold = false;
  Output out;
};

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) fail("cannot write {}: {}", path, std::strerror(errno));
}

// Runs Graphviz on `dot`; the result is written by Graphviz itself.
void render(const std::string& dot, const std::string& format, const std::string& path) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[0], STDIN_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    execlp("dot", "dot", ("-T" + format).c_str(), "-o", path.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(pipe_ends[0]);
  std::signal(SIGPIPE, SIG_IGN);  // dot may be missing; its exit status says so
  for (size_t done = 0; done < dot.size();) {
    const ssize_t n = write(pipe_ends[1], dot.data() + done, dot.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(pipe_ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    fail("Graphviz's `dot` is not installed: apt-get install graphviz, or write a .dot file");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("`dot` could not write {}", path);
}

std::string extension(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(dot + 1);
}

std::string as_html(const std::string& svg, const std::string& title) {
  return "<!doctype html><html><head><meta charset=\"utf-8\"><title>" + title +
         "</title></head><body style=\"margin:0;overflow:auto\">\n" + svg.substr(svg.find("<svg")) +
         "</body></html>\n";
}

void write_svg(const Flags& flags, const std::string& svg, const std::string& title) {
  const std::string kind = extension(flags.output);
  if (kind == "svg")
    write_file(flags.output, svg);
  else if (kind == "html")
    write_file(flags.output, as_html(svg, title));
  else
    fail("-o {}: this picture is written as .svg or .html", flags.output);
}

Bindings sizes(const Flags& flags) {
  Bindings bindings;
  for (const std::string& size : flags.sizes) {
    const size_t equals = size.find('=');
    if (equals == std::string::npos) fail("--size {}: expected SYMBOL=SIZE", size);
    bindings[size.substr(0, equals)] = Dim::parse(size.substr(equals + 1)).value();
  }
  return bindings;
}

viz::Color parse_color(const std::string& name) {
  if (name == "op") return viz::Color::kOp;
  if (name == "dtype") return viz::Color::kDtype;
  if (name == "memory") return viz::Color::kMemory;
  if (name == "time") return viz::Color::kTime;
  fail("--color {}: expected op, dtype, memory or time", name);
}

std::map<std::string, double> read_times(const std::string& path) {
  const auto json = nlohmann::json::parse(data::read_file(path), nullptr, false);
  if (!json.is_object() || !json.contains("rows"))
    fail("{} is not a profile: make one with `genesis-run profile FILE --json`", path);
  std::map<std::string, double> times;
  for (const auto& row : json["rows"]) times[row.value("name", "")] = row.value("us", 0.0);
  return times;
}

void draw_loss(const Flags& flags) {
  viz::Curve curve;
  std::istringstream in(data::read_file(flags.loss));
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row["loss"].is_number())
      continue;  // a line cut short by a kill
    curve.steps.push_back(row["step"].get<double>());
    curve.values.push_back(row["loss"].get<double>());
  }
  write_svg(flags, viz::curve_svg(curve, "loss of " + flags.loss, flags.baseline, flags.baseline_name),
            "loss");
}

void draw_memory(const Flags& flags, const std::shared_ptr<const Model>& model, const std::string& entry) {
  Session session(model);
  write_svg(flags, viz::memory_svg(session.plan(entry, sizes(flags))), entry);
}

void draw_graph(const Flags& flags, const Model& model, const std::string& entry) {
  viz::DotOptions options;
  options.color = parse_color(flags.color);
  options.fold = !flags.no_fold;
  options.sizes = sizes(flags);
  if (!flags.profile.empty()) options.times_us = read_times(flags.profile);
  std::unique_ptr<Model> other;
  if (!flags.diff.empty()) {
    other = load_model(flags.diff);
    options.other = &std::as_const(*other).entry(entry);
  }
  const std::string dot = viz::to_dot(model.entry(entry), options);
  const std::string kind = extension(flags.output);
  if (kind == "dot") return write_file(flags.output, dot);
  if (kind == "svg" || kind == "png") return render(dot, kind, flags.output);
  if (kind != "html") fail("-o {}: expected a name that ends in .svg, .png, .dot or .html", flags.output);
  render(dot, "svg", flags.output);
  write_file(flags.output, as_html(data::read_file(flags.output), entry));
}

void run(const Flags& flags) {
  if (flags.output.empty()) throw CLI::RequiredError("-o FILE.svg|.png|.dot|.html");
  if (!flags.loss.empty()) {
    draw_loss(flags);
  } else {
    if (flags.input.empty()) throw CLI::RequiredError("a model file");
    const std::shared_ptr<const Model> model = load_model(flags.input);
    if (model->entries().empty()) fail("{} has no entry points to draw", flags.input);
    const std::string entry = flags.entry.empty() ? model->entries().front()->name() : flags.entry;
    if (flags.memory)
      draw_memory(flags, model, entry);
    else
      draw_graph(flags, *model, entry);
  }
  flags.out.print({{"output", flags.output}}, [&] { std::cout << "saved " << flags.output << "\n"; });
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
        app.add_option("--color", flags.color, "op, dtype, memory or time")->capture_default_str();
        app.add_option("--size", flags.sizes, "SYMBOL=SIZE, for --color memory and --memory")->take_all();
        app.add_option("--profile", flags.profile,
                       "output of `genesis-run profile --json`, for --color time");
        app.add_option("--diff", flags.diff, "another model: what only one of them has is coloured");
        app.add_flag("--memory", flags.memory, "draw the memory plan instead of the graph");
        app.add_flag("--no-fold", flags.no_fold, "draw every repeated layer");
        app.add_option("--loss", flags.loss, "draw the loss curve of this metrics.jsonl");
        app.add_option("--baseline", flags.baseline, "a line to hold the loss against");
        app.add_option("--baseline-name", flags.baseline_name, "its name")->capture_default_str();
        flags.out.add_to(app);
        app.callback([&] { run(flags); });
      });
}
