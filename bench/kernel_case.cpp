#include "bench/kernel_case.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

namespace genesis::bench {
namespace {

// Limits and ops take turns, so that what else runs on the machine meets both.
cpu::Peaks run_rounds(int rounds, std::vector<Case>& cases) {
  cpu::Peaks best;
  for (int round = 0; round < rounds; ++round) {
    const cpu::Peaks peaks = cpu::measure_peaks();
    best.read_gbps = std::max(best.read_gbps, peaks.read_gbps);
    best.copy_gbps = std::max(best.copy_gbps, peaks.copy_gbps);
    for (Case& one : cases) one.run_for(0.1);
  }
  return best;
}

int report(int rounds, const std::string& json_file, std::vector<Case>& cases) {
  const cpu::Peaks peaks = run_rounds(rounds, cases);
  fmt::print("limits, all cores: read {:.1f} GB/s, copy {:.1f} GB/s\n", peaks.read_gbps, peaks.copy_gbps);
  fmt::print("\n{:<20} {:<18} {:>8} {:>17}\n", "op", "first input", "GB/s", "of bandwidth");
  nlohmann::json rows = nlohmann::json::array();
  for (const Case& one : cases) {
    fmt::print("{:<20} {:<18} {:>8.1f} {:>10.1f}% {}\n", one.what(), one.type(), one.gbps(),
               100 * one.share(peaks), one.limit());
    rows.push_back({{"op", one.what()},
                    {"type", one.type()},
                    {"gbps", one.gbps()},
                    {"limit", one.limit()},
                    {"share", one.share(peaks)}});
  }
  if (json_file.empty()) return 0;
  const nlohmann::json report = {{"peaks", {{"read_gbps", peaks.read_gbps}, {"copy_gbps", peaks.copy_gbps}}},
                                 {"rows", rows}};
  std::ofstream file(json_file);
  file << report.dump(2) << '\n';
  return file.good() ? 0 : 1;
}

}  // namespace

int run_cases(int argc, char** argv, const char* what, std::vector<Case> cases) {
  CLI::App app(what);
  std::string json_file;
  int rounds = 5;
  app.add_option("--json", json_file, "write the results to this file");
  app.add_option("--rounds", rounds, "how often each case takes its turn")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return report(rounds, json_file, cases);
}

}  // namespace genesis::bench
