// Plans generated hard instances and training steps, and prints how far each arena is above the lower bound.
//   plan_instances [--kind KIND] [--seeds N] [--budget UNITS] [--seconds CAP] [--dump DIR]
// Each plan is checked for overlaps. With --dump the instances are also written as `id,lower,upper,size`
// files.
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "bench/plan_generators.h"
#include "passes/overlap_check.h"
#include "schema/error.h"

namespace {

using genesis::bench::PlanInstance;

struct Arguments {
  std::string kind, dump, json;
  int seeds = 2;
  genesis::passes::OffsetOptions options{.search_budget = genesis::passes::kThoroughSearch};
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--kind") arguments.kind = argv[i + 1];
    if (flag == "--dump") arguments.dump = argv[i + 1];
    if (flag == "--json") arguments.json = argv[i + 1];
    if (flag == "--seeds") arguments.seeds = std::atoi(argv[i + 1]);
    if (flag == "--seconds") arguments.options.max_seconds = std::atof(argv[i + 1]);
    if (flag == "--budget") arguments.options.search_budget = std::atoll(argv[i + 1]);
  }
  return arguments;
}

struct Tally {
  double log_sum = 0, worst = 0, slowest = 0;
  int count = 0;

  void add(double ratio, double seconds) {
    log_sum += std::log(ratio);
    worst = std::max(worst, ratio);
    slowest = std::max(slowest, seconds);
    ++count;
  }
  void print(const std::string& name) const {
    fmt::print("{:<18} {:>4} instances   geometric mean {:.4f}   worst {:.4f}   slowest {:.2f} s\n", name,
               count, std::exp(log_sum / count), worst, slowest);
  }
};

void dump(const PlanInstance& instance, const std::string& folder) {
  std::ofstream file(
      fmt::format("{}/{}-{}-{}.csv", folder, instance.kind, instance.buffers.size(), instance.seed));
  file << "id,lower,upper,size\n";
  for (size_t i = 0; i < instance.buffers.size(); ++i) {
    const auto& b = instance.buffers[i];
    file << fmt::format("b{},{},{},{}\n", i, b.lower, b.upper, b.size);
  }
}

void run(const PlanInstance& instance, const Arguments& arguments, Tally& tally) {
  if (!arguments.dump.empty()) return dump(instance, arguments.dump);
  const auto begin = std::chrono::steady_clock::now();
  const auto plan = genesis::passes::plan_offsets(instance.buffers, arguments.options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  GENESIS_ASSERT(!genesis::passes::find_overlap(instance.buffers, plan.offsets));
  tally.add(plan.ratio(), seconds);
  fmt::print("{:<18} seed {:<3} {:>7} buffers   ratio {:.4f}   {:>6.2f} s\n", instance.kind, instance.seed,
             instance.buffers.size(), plan.ratio(), seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  std::map<std::string, Tally> kinds;
  Tally all;
  for (const std::string& kind : genesis::bench::hard_kinds()) {
    if (!arguments.kind.empty() && kind != arguments.kind) continue;
    for (int seed = 1; seed <= arguments.seeds; ++seed)
      for (const int buffers : {150, 300, 450})
        run(genesis::bench::make_instance(kind, buffers, static_cast<uint64_t>(seed)), arguments,
            kinds[kind]);
  }
  for (const auto& [kind, tally] : kinds) {
    all.log_sum += tally.log_sum;
    all.count += tally.count;
    all.worst = std::max(all.worst, tally.worst);
    all.slowest = std::max(all.slowest, tally.slowest);
  }
  if (arguments.kind.empty() || arguments.kind == "train-step")
    for (const int buffers : {300, 2000, 20000, 100000})
      run(genesis::bench::make_train_step(buffers, 1), arguments, kinds["train-step"]);
  if (!arguments.dump.empty()) return 0;
  fmt::print("\n");
  for (const auto& [kind, tally] : kinds) tally.print(kind);
  if (all.count > 0) all.print("all hard kinds");
  if (all.count > 0 && !arguments.json.empty())
    std::ofstream(arguments.json) << fmt::format(
        "{{\"instances\": {}, \"geometric_mean\": {:.5f}, \"worst\": {:.5f}, \"slowest_seconds\": {:.3f}}}\n",
        all.count, std::exp(all.log_sum / all.count), all.worst, all.slowest);
}
