// Compares the arena with its lower bound (the most bytes that are alive at once) for every model of the zoo, inference and
// training, at several sizes. Only plans, runs nothing, so plans for a GPU need none.
// `bench_arena [--device cuda] [--models gpt2,qwen2] [--train "OPTIONS"] [--json FILE]`.
#include <fmt/format.h>

#include <algorithm>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/common/subject.h"
#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "models/zoo.h"

namespace genesis::bench {
namespace {

struct Worst {
  double ratio = 1;
  std::string where;
};

class Table {
 public:
  explicit Table(const std::string& device) : target_(target_of(device)) {}

  void plan_model(const std::string& name, const models::Settings& settings, const std::string& training) {
    const std::unique_ptr<Model> model = models::make_uninitialized_model(name, settings);
    if (model->find_entry("loss")) add_training(*model, training);
    for (const auto& entry : std::as_const(*model).entries())
      for (const Bindings& sizes : sizes_for(*entry)) add(*model, name, training, entry->name(), sizes);
  }

  void finish(const std::string& json_file) const {
    fmt::print("\n{} plans, worst ratio {:.4f} ({})\n", rows_.size(), worst_.ratio,
               worst_.where.empty() ? "all meet the bound" : worst_.where);
    write_report(json_file, {{"plans", rows_}, {"worst_ratio", worst_.ratio}, {"worst", worst_.where}});
  }

 private:
  // Returns small, medium and odd sizes for the symbols of the inputs.
  static std::vector<Bindings> sizes_for(const Graph& graph) {
    std::vector<Bindings> sizes;
    for (const auto& [batch, seq] : {std::pair{1, 16}, {3, 37}, {8, 128}, {8, 256}}) {
      Bindings bindings;
      for (ValueId input : graph.inputs())
        for (int i = 0; i < graph.type(input).shape.rank(); ++i)
          add_symbols(graph.type(input).shape[i], batch, seq, bindings);
      if (std::find(sizes.begin(), sizes.end(), bindings) == sizes.end()) sizes.push_back(bindings);
    }
    return sizes;
  }

  static void add_symbols(const Dim& dim, int64_t batch, int64_t seq, Bindings& bindings) {
    std::vector<std::string> symbols;
    dim.collect_symbols(symbols);
    for (const std::string& symbol : symbols) bindings[symbol] = symbol == "batch" ? batch : seq;
  }

  void add(const Model& compiled, const std::string& model, const std::string& training,
           const std::string& entry, const Bindings& sizes) {
    const Plan plan = compile_entry(compiled, entry, sizes, target_, {}).plan;
    const double ratio =
        plan.lower_bound_bytes > 0 ? double(plan.arena_bytes) / double(plan.lower_bound_bytes) : 1;
    std::string label = entry == "train_step" ? fmt::format("{} ({})", entry, training) : entry;
    for (const auto& [name, size] : sizes) label += fmt::format(" {}={}", name, size);
    fmt::print("{:<6} {:<62} {:>9.2f} MiB {:>9.2f} MiB  {:.4f}\n", model, label,
               double(plan.arena_bytes) / (1 << 20), double(plan.lower_bound_bytes) / (1 << 20), ratio);
    rows_.push_back({{"model", model},
                     {"plan", label},
                     {"arena_bytes", plan.arena_bytes},
                     {"lower_bound_bytes", plan.lower_bound_bytes},
                     {"ratio", ratio}});
    if (ratio > worst_.ratio) worst_ = {ratio, model + " " + label};
  }

  const Target target_;
  std::vector<Report> rows_;
  Worst worst_;
};

struct Chosen {
  std::string device = "cpu", json_file;
  std::vector<std::string> models, trainings = {"adamw,clip=1.0", "sgd,momentum=0.9,accumulate=4"};
};

void run(const Chosen& chosen) {
  Table table(chosen.device);
  fmt::print("{:<6} {:<62} {:>13} {:>13}  ratio\n", "model", "entry point and sizes", "arena", "lower bound");
  for (const std::string& model : chosen.models)
    for (const std::string& training : chosen.trainings) table.plan_model(model, {}, training);
  table.finish(chosen.json_file);
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options("Arena against lower bound for every model of the zoo.");
  genesis::bench::Chosen chosen;
  std::string training;
  options.text("--device", chosen.device, "device of the plans, cpu or cuda (default: cpu)");
  options.texts("--models", chosen.models, "models of the zoo (default: all)");
  options.text("--train", training,
               "options of training (default: AdamW with clipping, and SGD with accumulation)");
  options.json(chosen.json_file);
  options.parse(argc, argv);
  if (!training.empty()) chosen.trainings = {training};
  if (chosen.models.empty())
    for (const auto& model : genesis::models::list_models()) chosen.models.push_back(model.name);
  genesis::bench::run(chosen);
}
