// Plans generated hard instances and training steps, and prints how far each arena is above the lower bound.
//   plan_instances [--kind KIND] [--seeds N] [--budget UNITS] [--seconds CAP] [--dump DIR]
// Each plan is checked for overlaps. With --dump the instances are written as `id,lower,upper,size` files instead.
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <string>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/memory/plan_generators.h"
#include "passes/memory/offsets/overlap_check.h"
#include "schema/core/error.h"

namespace {

using genesis::bench::PlanInstance;

struct Arguments {
  std::string kind, dump, json;
  int seeds = 1;
  genesis::passes::OffsetOptions options{.search_budget = genesis::passes::kThoroughSearch};
};

struct Tally {
  double log_sum = 0, worst = 0, slowest = 0;
  int count = 0;

  void add(double ratio, double seconds) {
    log_sum += std::log(ratio);
    worst = std::max(worst, ratio);
    slowest = std::max(slowest, seconds);
    ++count;
  }
  void add(const Tally& other) {
    log_sum += other.log_sum;
    worst = std::max(worst, other.worst);
    slowest = std::max(slowest, other.slowest);
    count += other.count;
  }
  double geometric_mean() const { return std::exp(log_sum / count); }
  genesis::bench::Report report() const {
    return {{"instances", count},
            {"geometric_mean", geometric_mean()},
            {"worst", worst},
            {"slowest_seconds", slowest}};
  }
  void print(const std::string& name) const {
    fmt::print("{:<18} {:>4} instances   geometric mean {:.4f}   worst {:.4f}   slowest {:.2f} s\n", name,
               count, geometric_mean(), worst, slowest);
  }
};

void dump(const PlanInstance& instance, const std::string& folder) {
  std::ofstream file(
      fmt::format("{}/{}-{}-{}.csv", folder, instance.kind, instance.buffers.size(), instance.seed));
  if (!file) genesis::fail("cannot write into '{}'; it must be an existing folder", folder);
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

int main(int argc, char** argv) try {
  Arguments arguments;
  genesis::bench::Options options("Plans hard instances and training steps, and prints height / lower bound");
  options.text("--kind", arguments.kind, "only this kind of instances");
  options.number("--seeds", arguments.seeds, "instances of each kind and size");
  options.number("--budget", arguments.options.search_budget, "units of search work for one instance");
  options.number("--seconds", arguments.options.max_seconds, "safety cap for one instance");
  options.text("--dump", arguments.dump, "write the instances as CSV files to this folder instead");
  options.json(arguments.json);
  options.parse(argc, argv);
  std::map<std::string, Tally> kinds;
  Tally all;
  for (const std::string& kind : genesis::bench::hard_kinds()) {
    if (!arguments.kind.empty() && kind != arguments.kind) continue;
    for (int seed = 1; seed <= arguments.seeds; ++seed)
      for (const int buffers : {150, 300, 450})
        run(genesis::bench::make_instance(kind, buffers, static_cast<uint64_t>(seed)), arguments,
            kinds[kind]);
  }
  for (const auto& [kind, tally] : kinds) all.add(tally);
  if (arguments.kind.empty() || arguments.kind == "train-step")
    for (const int buffers : {300, 2000, 20000, 100000})
      run(genesis::bench::make_train_step(buffers, 1), arguments, kinds["train-step"]);
  if (!arguments.dump.empty()) return 0;
  fmt::print("\n");
  for (const auto& [kind, tally] : kinds) tally.print(kind);
  if (all.count > 0) all.print("all hard kinds");
  genesis::bench::Report report = all.report(), of_kinds;
  for (const auto& [kind, tally] : kinds) of_kinds.add(kind, tally.report());
  report.add("kinds", of_kinds);
  write_report(arguments.json, report);
} catch (const genesis::Error& error) {
  fmt::print(stderr, "plan_instances: error: {}\n", error.what());
  return 1;
}
