// genesis-viz: pictures of models, plans and training runs.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>

#include "models/data/sources.h"
#include "schema/file/atomic_write.h"
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

// A file without a name, which goes away by itself.
class Scratch {
 public:
  explicit Scratch(const std::string& text = "") : file_(std::tmpfile()) {
    if (!file_) fail("cannot make a temporary file: {}", std::strerror(errno));
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
      fail("cannot write a temporary file: {}", std::strerror(errno));
    std::rewind(file_);
  }
  ~Scratch() { std::fclose(file_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int fd() const { return fileno(file_); }
  std::string read() const {
    std::string text;
    char block[4096];
    std::rewind(file_);
    for (size_t n; (n = std::fread(block, 1, sizeof block, file_)) > 0;) text.append(block, n);
    return text;
  }

 private:
  std::FILE* file_;
};

// Runs Graphviz on `dot`. Files rather than pipes: neither side can wait for the other.
std::string render(const std::string& dot, const std::string& format) {
  const Scratch in(dot), out, errors;
  const std::string flag = "-T" + format;
  const pid_t child = fork();
  if (child < 0) fail("cannot start Graphviz: {}", std::strerror(errno));
  if (child == 0) {
    dup2(in.fd(), STDIN_FILENO);
    dup2(out.fd(), STDOUT_FILENO);
    dup2(errors.fd(), STDERR_FILENO);
    execlp("dot", "dot", flag.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    fail("Graphviz's `dot` is not installed: apt-get install graphviz, or write a .dot file");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("Graphviz's `dot` failed: {}", errors.read());
  return out.read();
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
    write_file_atomically(flags.output, svg);
  else if (kind == "html")
    write_file_atomically(flags.output, as_html(svg, title));
  else
    fail("-o {}: this picture is written as .svg or .html", flags.output);
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
  const Bindings sizes = parse_sizes(flags.sizes);
  check_sizes_exist(*model, sizes);
  check_sizes_known(model->entry(entry), sizes);
  write_svg(flags, viz::memory_svg(session.plan(entry, sizes)), entry);
}

void draw_graph(const Flags& flags, const Model& model, const std::string& entry) {
  viz::DotOptions options;
  options.color = parse_color(flags.color);
  options.fold = !flags.no_fold;
  options.sizes = parse_sizes(flags.sizes);
  check_sizes_exist(model, options.sizes);
  if (!flags.profile.empty()) options.times_us = read_times(flags.profile);
  std::unique_ptr<Model> other;
  if (!flags.diff.empty()) {
    other = load_model(flags.diff);
    options.other = &std::as_const(*other).entry(entry);
  }
  const std::string dot = viz::to_dot(model.entry(entry), options);
  const std::string kind = extension(flags.output);
  if (kind == "dot") return write_file_atomically(flags.output, dot);
  if (kind == "svg" || kind == "png") return write_file_atomically(flags.output, render(dot, kind));
  if (kind != "html") fail("-o {}: expected a name that ends in .svg, .png, .dot or .html", flags.output);
  write_file_atomically(flags.output, as_html(render(dot, "svg"), entry));
}

void run(const Flags& flags) {
  if (flags.output.empty()) throw CLI::RequiredError("-o FILE.svg|.png|.dot|.html");
  check_can_write(flags.output);
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
