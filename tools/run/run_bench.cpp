// genesis-run bench: measures the time of an entry point.
#include <iostream>

#include "executor/inspection/benchmark.h"
#include "schema/file/reader.h"
#include "tools/common/numbers.h"
#include "tools/common/ranks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/run/run_inputs.h"

namespace genesis::tools {
namespace {

struct BenchFlags {
  std::string file, mesh;
  int zero = 0;
  BenchmarkOptions options;
  InputFlags inputs;
  RunFlags run;
  Output out;
};

nlohmann::ordered_json as_json(const std::string& entry, const Benchmark& m, const Bindings& sizes) {
  return {{"entry", entry},
          {"sizes", sizes},
          {"runs", m.runs},
          {"first_ms", m.first_ms},
          {"median_ms", m.median_ms},
          {"min_ms", m.least_ms},
          {"p99_ms", m.p99_ms},
          {"device_ms", m.device_ms},
          {"tokens_per_second", m.tokens_per_second},
          {"arena_bytes", m.memory.arena_bytes},
          {"state_bytes", m.memory.state_bytes},
          {"workspace_bytes", m.workspace_bytes},
          {"device_bytes", m.memory.device_bytes},
          {"device_peak_bytes", m.memory.device_peak_bytes},
          {"peaks", peaks_json(m.peaks)},
          {"gflop", m.gflop},
          {"gbytes", m.gbytes},
          {"share_of_peak", m.share()}};
}

void print_measured(const std::string& entry, const Benchmark& m, const Bindings& sizes) {
  std::cout << sizes_line(entry, sizes);
  std::cout << fmt::format(
      "{}: median {:.3f} ms, min {:.3f}, p99 {:.3f} over {} runs, {:.3f} back to back on the "
      "device; first run (with compiling) {:.1f} ms\n",
      entry, m.median_ms, m.least_ms, m.p99_ms, m.runs, m.device_ms, m.first_ms);
  if (m.tokens_per_second > 0) std::cout << fmt::format("{} tokens/s\n", human_count(m.tokens_per_second));
  std::cout << fmt::format("arena {}, states {}\n", human_bytes(m.memory.arena_bytes),
                           human_bytes(m.memory.state_bytes));
  if (m.memory.device_bytes > 0)
    std::cout << fmt::format("held on the device {}, at most {}\n", human_bytes(m.memory.device_bytes),
                             human_bytes(m.memory.device_peak_bytes));
  std::cout << fmt::format(
      "{} of what this device allows: products at {:.0f} GFLOP/s f32 or {:.0f} with 16 bits, {:.0f} GB/s "
      "from memory (every step's bytes or products at these rates, at those of its caches where the data "
      "fits in one){}\n",
      m.share() > 1 ? "more than 100%" : fmt::format("{:.0f}%", 100 * m.share()), m.peaks.f32_gflops,
      m.peaks.low_gflops, std::max(m.peaks.copy_gbps, m.peaks.read_gbps),
      m.share() > 1 ? kFasterThanLimits : "");
}

void bench(const BenchFlags& flags, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  const std::string file = model_file(flags.file, *world), &entry = flags.options.entry;
  const std::shared_ptr<const Model> model = load_model(file);
  const NamedTensors inputs = flags.inputs.make(model->entry(entry), world->mesh());
  const SessionOptions options = session_options(flags.run, world, flags.mesh, flags.zero);
  flags.run.memory.check_limits_one_of({entry}, *model);
  Session session(model, options);
  Benchmark measured;
  with_nonfinite_page(flags.run, file, session,
                      [&] { measured = benchmark(session, inputs, flags.options, *world); });
  const Bindings sizes = session.plan(entry, inputs).bindings;
  flags.out.print(as_json(entry, measured, sizes), [&] { print_measured(entry, measured, sizes); });
}

}  // namespace

void add_bench(Command& app) {
  auto flags = std::make_shared<BenchFlags>();
  Command* command = app.add_subcommand("bench", "time an entry point: median, p99, tokens/s");
  command->add_option("file", flags->file, kModelName)->required();
  command->add_option("--entry", flags->options.entry, "entry point")->capture_default_str();
  add_number(*command, "--runs", flags->options.runs, "number of runs; 0: as many as fit in --seconds",
             Range<int64_t>{0, 1000000});
  add_number(*command, "--seconds", flags->options.seconds, "how long to measure", Range<double>{0, 86400});
  flags->inputs.add_to(*command);
  add_zero(*command, add_mesh(*command, flags->mesh), flags->zero);
  flags->run.add_to(*command);
  flags->run.memory.add_to(*command);
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-run bench qwen2.genesis --entry loss --size batch=8 --size seq=256");
  command->callback([flags, command] {
    check_rules(*command, {{flags->options.runs > 0, {"--seconds"}, "with --runs, which says how often"}});
    run_ranks(flags->mesh, flags->run, SharedWork::kBatches,
              [&](const auto& world) { bench(*flags, world); });
  });
}

}  // namespace genesis::tools
