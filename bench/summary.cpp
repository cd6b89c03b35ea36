// Prints the last page of `./dev bench`: reads the reports of the benches and prints each bar with the reached value. Called as
// `bench_summary FOLDER`; also writes FOLDER/summary.json. A bench that did not run leaves its rows empty.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace genesis::bench {
namespace {

using nlohmann::json;

struct Bar {
  std::string what, required, reached;
  std::optional<bool> met;  // empty: not measured here
};

// Reads a bench's report: one JSON value, or one value per line, which become a list. Returns null if there is none.
json read_report(const std::string& file) {
  std::ifstream in(file);
  if (!in) return nullptr;
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  json whole = json::parse(text, nullptr, false);
  if (!whole.is_discarded()) return whole;
  json lines = json::array();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const json line = json::parse(text.substr(at, end - at), nullptr, false);
    if (!line.is_discarded()) lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

class Summary {
 public:
  explicit Summary(std::string folder) : folder_(std::move(folder)) {}

  void collect() {
    add_products();
    add_bandwidth();
    add_train_step();
    add_at_least("decode of the same model, batch 1, f32, of read bandwidth", read("decode"), "share_of_read",
                 0.75, 100, "%");
    add_tokenizer();
    add_at_most("executor, us per step of a chain of 1,000 tiny ops", read("overhead"), "us_per_step", 2,
                "us");
    add_open_file();
    add_at_most("arena / lower bound, whole zoo, training and inference", read("arena"), "worst_ratio", 1,
                "");
    add_plans();
  }

  void print() const {
    fmt::print("\n{:<72} {:>12} {:>24}\n", "bar", "required", "reached");
    json rows = json::array();
    for (const Bar& bar : bars_) {
      const char* verdict = !bar.met ? "" : *bar.met ? "met" : "MISSED";
      fmt::print("{:<72} {:>12} {:>24}  {}\n", bar.what, bar.required, bar.reached, verdict);
      rows.push_back(
          {{"bar", bar.what}, {"required", bar.required}, {"reached", bar.reached}, {"met", verdict}});
    }
    std::ofstream(folder_ + "/summary.json") << rows.dump(2) << '\n';
  }

 private:
  json read(const std::string& name) const { return read_report(folder_ + "/" + name + ".json"); }

  void add_missing(const std::string& what, const std::string& required) {
    bars_.push_back({what, required, "not measured", {}});
  }

  void add_at_least(const std::string& what, const json& report, const char* key, double limit, double factor,
                    const char* unit) {
    const std::string required = fmt::format(">= {:.4g}{}", limit * factor, unit);
    if (!report.is_object() || !report.contains(key)) return add_missing(what, required);
    const double value = report[key];
    bars_.push_back({what, required, fmt::format("{:.2f}{}", value * factor, unit), value >= limit});
  }

  void add_at_most(const std::string& what, const json& report, const char* key, double limit,
                   const char* unit) {
    const std::string required = fmt::format("<= {:.4g}{}{}", limit, *unit ? " " : "", unit);
    if (!report.is_object() || !report.contains(key)) return add_missing(what, required);
    const double value = report[key];
    bars_.push_back({what, required, fmt::format("{:.4f}{}{}", value, *unit ? " " : "", unit),
                     value < limit + 0.0005});  // ratios to a bound are stated with three digits
  }

  void add_products() {
    const json report = read("matmul");
    for (const auto& [m, n, k] : {std::array<int, 3>{2048, 2048, 2048}, {512, 4864, 896}}) {
      const std::string size = fmt::format("{}x{}x{}", m, n, k);
      json found;
      if (report.is_object())
        for (const json& row : report["products"])
          if (found.is_null() && row["m"] == m && row["n"] == n && row["k"] == k) found = row;
      add_at_least("f32 matmul " + size + ", of the FMA peak", found, "f32_share_of_peak", 0.85, 100, "%");
      add_at_least("bf16 matmul " + size + ", of f32", found, "bf16_over_f32", 1.7, 1, "x");
    }
  }

  // Adds the worst of the rows of a list with this name, or with this name followed by a comma or a space.
  void add_worst(const std::string& what, const json& rows, const char* name_key, const std::string& begin,
                 const char* value_key) {
    std::optional<double> worst;
    if (rows.is_array())
      for (const json& row : rows)
        if (row.contains(name_key) && row.contains(value_key) && is_named(row[name_key], begin) &&
            row.value("type", "f32").starts_with("f32"))
          worst = std::min(worst.value_or(1e9), row[value_key].get<double>());
    if (!worst) return add_missing(what, ">= 80%");
    bars_.push_back({what, ">= 80%", fmt::format("{:.1f}%", *worst * 100), *worst >= 0.8});
  }

  static bool is_named(const std::string& name, const std::string& begin) {
    return name == begin || name.starts_with(begin + ",") || name.starts_with(begin + " ");
  }

  void add_bandwidth() {
    const json elementwise = read("elementwise"), report = read("rows");
    const json rows = report.is_object() ? report["rows"] : json();
    add_worst("add f32, 128 MiB, of bandwidth", elementwise, "name", "add f32", "ratio");
    add_worst("gelu f32, 128 MiB, of bandwidth", elementwise, "name", "gelu f32", "ratio");
    add_worst("fused chains of 5 (plain; exp, tanh and gelu; bf16), of bandwidth", elementwise, "name",
              "fused chain of 5", "ratio");
    add_worst("softmax f32, 128 MiB, worst of rows of 1024 and 4096", rows, "op", "softmax", "share");
    add_worst("layer_norm f32, the same", rows, "op", "layer_norm", "share");
    add_worst("rms_norm f32, the same", rows, "op", "rms_norm", "share");
  }

  void add_train_step() {
    const json ours = read("train_step"), torch = read("torch");
    add_at_least("train_step qwen2 512 x 8, 8 x 256 tokens, of the FMA peak", ours, "share_of_peak", 0.5, 100,
                 "%");
    add_at_most("  its arena / lower bound", ours, "arena_ratio", 1, "");
    add_at_least("  one thread, in processor time, of the FMA peak",
                 ours.is_object() ? ours.value("one_core", json()) : json(), "share_of_peak", 0.5, 100, "%");
    for (const char* mode : {"eager", "compile"}) {
      const std::string key = std::string(mode) + "_tokens_per_second";
      json ratio;
      if (ours.is_object() && torch.is_object() && torch.contains(key))
        ratio = {{"ratio", ours["tokens_per_second"].get<double>() / torch[key].get<double>()}};
      add_at_least(fmt::format("  tokens/s against PyTorch, {}", mode), ratio, "ratio", 1.5, 1, "x");
      const std::string core = std::string(mode) + "_core_seconds";
      ratio = nullptr;
      if (ours.is_object() && torch.is_object() && torch.contains(core))
        ratio = {{"ratio", torch[core].get<double>() / ours["one_core"]["seconds"].get<double>()}};
      add_at_least("  the same with one thread, in processor time", ratio, "ratio", 1.5, 1, "x");
    }
  }

  // The library runs on all cores, and so do we if there is more than one.
  void add_tokenizer() {
    const json own = read("tokenizer"), peer = read("tokenizers_library");
    add_at_least("tokenizer, MB/s of text on one core", own, "encode_mb_per_second", 10, 1, "");
    json ratio;
    if (own.is_object() && peer.is_object())
      ratio["times"] = peer["training_seconds"].get<double>() /
                       own.value("all", own["one"])["training_seconds"].get<double>();
    add_at_least("learning a tokenizer, times the library tokenizers", ratio, "times", 1, 1, "x");
  }

  void add_open_file() {
    const json report = read("open_file");
    add_at_most("2 GB file, open and first run, beyond reading its pages", report, "seconds_beyond", 0.5,
                "s");
    add_at_most("  resident memory / bytes the run touches", report, "resident_ratio", 1.1, "");
  }

  void add_plans() {
    const json report = read("plan_instances");
    add_at_most("hard plans of 150 to 450 buffers: geometric mean of height / bound", report,
                "geometric_mean", 1.1, "");
    add_at_most("  slowest of them", report, "slowest_seconds", 10, "s");
  }

  std::string folder_;
  std::vector<Bar> bars_;
};

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_summary FOLDER\n");
    return 2;
  }
  genesis::bench::Summary summary(argv[1]);
  summary.collect();
  summary.print();
}
