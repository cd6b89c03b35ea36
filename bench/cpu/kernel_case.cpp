#include "bench/cpu/kernel_case.h"

#include <fmt/format.h>

#include "bench/common/options.h"
#include "bench/common/report.h"

namespace genesis::bench {
namespace {

// Limits and ops take turns, so that other work on the machine affects both.
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

void report(int rounds, const std::string& json_file, std::vector<Case>& cases) {
  const cpu::Peaks peaks = run_rounds(rounds, cases);
  fmt::print("limits, all cores: read {:.1f} GB/s, copy {:.1f} GB/s\n", peaks.read_gbps, peaks.copy_gbps);
  fmt::print("\n{:<20} {:<18} {:>8} {:>17}\n", "op", "first input", "GB/s", "of bandwidth");
  std::vector<Report> rows;
  for (const Case& one : cases) {
    fmt::print("{:<20} {:<18} {:>8.1f} {:>10.1f}% {}\n", one.what(), one.type(), one.gbps(),
               100 * one.share(peaks), one.limit());
    rows.push_back({{"op", one.what()},
                    {"type", one.type()},
                    {"gbps", one.gbps()},
                    {"limit", one.limit()},
                    {"share", one.share(peaks)}});
  }
  const Report limits = {{"read_gbps", peaks.read_gbps}, {"copy_gbps", peaks.copy_gbps}};
  write_report(json_file, {{"peaks", limits}, {"rows", rows}});
}

}  // namespace

int run_cases(int argc, char** argv, const char* what, std::vector<Case> cases) {
  Options options(what);
  std::string json_file;
  int rounds = 5;
  options.json(json_file);
  options.rounds(rounds, "how often each case takes its turn");
  options.parse(argc, argv);
  report(rounds, json_file, cases);
  return 0;
}

}  // namespace genesis::bench
