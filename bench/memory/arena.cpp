// Compares the arena with its lower bound (the most bytes that are alive at once) for every model of the zoo, inference and
// training, at several sizes. Only plans, runs nothing. `bench_arena [--json FILE]`.
#include <fmt/format.h>

#include <algorithm>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/common/subject.h"
#include "executor/session.h"
#include "models/zoo.h"

namespace genesis::bench {
namespace {

struct Worst {
  double ratio = 1;
  std::string where;
};

class Table {
 public:
  void plan_model(const std::string& name, const models::Settings& settings, const std::string& training) {
    std::shared_ptr<Model> model = models::make_model(name, settings);
    add_training(*model, training);
    Session session(model);
    for (const auto& entry : std::as_const(*model).entries())
      for (const Bindings& sizes : sizes_for(*entry)) add(session, name, training, entry->name(), sizes);
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

  void add(Session& session, const std::string& model, const std::string& training, const std::string& entry,
           const Bindings& sizes) {
    const Plan& plan = session.plan(entry, sizes);
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

  std::vector<Report> rows_;
  Worst worst_;
};

void run(const std::string& json_file) {
  Table table;
  fmt::print("{:<6} {:<62} {:>13} {:>13}  ratio\n", "model", "entry point and sizes", "arena", "lower bound");
  for (const models::ZooModel& model : models::list_models())
    for (const char* training : {"adamw,clip=1.0", "sgd,momentum=0.9,accumulate=4"})
      table.plan_model(model.name, {}, training);
  table.finish(json_file);
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options("Arena against lower bound for every model of the zoo.");
  std::string json_file;
  options.json(json_file);
  options.parse(argc, argv);
  genesis::bench::run(json_file);
}
