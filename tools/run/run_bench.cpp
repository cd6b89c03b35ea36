// genesis-run bench: measures the time of an entry point.
#include <algorithm>
#include <chrono>
#include <iostream>

#include "executor/runtime/roofline.h"
#include "passes/distribution/rank_sizes.h"
#include "schema/file/reader.h"
#include "tools/common/numbers.h"
#include "tools/common/ranks.h"
#include "tools/run/measured_peaks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/run/run_inputs.h"
#include "tools/run/sizes_text.h"

namespace genesis::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  std::string file, mesh, entry = "forward";
  int64_t runs = 0;
  int zero = 0;
  double seconds = 3;
  InputFlags inputs;
  RunFlags run;
  Output out;
};

double run_once(Session& session, const BenchFlags& flags, const NamedTensors& inputs) {
  const auto start = Clock::now();
  session.run(flags.entry, inputs);
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Returns sorted times in ms. Rank 0 decides on the number of runs, since clocks of ranks differ.
std::vector<double> measure(Session& session, const BenchFlags& flags, const NamedTensors& inputs,
                            World& world) {
  std::vector<double> times;
  double total = 0;
  const auto wants_more = [&] {
    return flags.runs > 0 ? static_cast<int64_t>(times.size()) < flags.runs
                          : total < flags.seconds * 1000 || times.size() < 3;
  };
  while (world.agreed_by_first(wants_more())) {
    times.push_back(run_once(session, flags, inputs));
    total += times.back();
  }
  std::ranges::sort(times);
  return times;
}

// Returns the largest scratch memory of any step. It lies in the arena.
int64_t workspace_bytes(const Plan& plan) {
  int64_t most = 0;
  for (const Step& step : plan.steps) most = std::max(most, step.scratch_bytes);
  return most;
}

// The least time that the device needs by its limits, which are measured now.
struct Limits {
  DevicePeaks peaks;
  double least_ms = 0, gflop = 0, gbytes = 0;
};

Limits limits_of(const Plan& plan, const DevicePeaks& peaks) {
  Limits limits{peaks};
  for (const double least_us : least_microseconds(plan, peaks)) limits.least_ms += 1e-3 * least_us;
  for (const Step& step : plan.steps) {
    const Cost cost = cost_of(step);
    limits.gflop += 1e-9 * cost.flops;
    limits.gbytes += 1e-9 * cost.bytes;
  }
  return limits;
}

// Results of `bench`; times are in milliseconds.
struct Measured {
  double first, median, least, p99, device;
  size_t runs;
  double tokens_per_second;  // 0 if there are no tokens
  MemoryStatistics memory;
  Limits limits;

  double share() const { return limits.least_ms / device; }
};

nlohmann::ordered_json as_json(const BenchFlags& flags, const Measured& m, const Plan& plan) {
  return {{"entry", flags.entry},
          {"sizes", plan.bindings},
          {"runs", m.runs},
          {"first_ms", m.first},
          {"median_ms", m.median},
          {"min_ms", m.least},
          {"p99_ms", m.p99},
          {"device_ms", m.device},
          {"tokens_per_second", m.tokens_per_second},
          {"arena_bytes", m.memory.arena_bytes},
          {"state_bytes", m.memory.state_bytes},
          {"workspace_bytes", workspace_bytes(plan)},
          {"device_bytes", m.memory.device_bytes},
          {"device_peak_bytes", m.memory.device_peak_bytes},
          {"peaks", peaks_json(m.limits.peaks)},
          {"gflop", m.limits.gflop},
          {"gbytes", m.limits.gbytes},
          {"share_of_peak", m.share()}};
}

void print_measured(const BenchFlags& flags, const Measured& m, const Bindings& sizes) {
  std::cout << sizes_line(flags.entry, sizes);
  std::cout << fmt::format(
      "{}: median {:.3f} ms, min {:.3f}, p99 {:.3f} over {} runs, {:.3f} back to back on the "
      "device; first run (with compiling) {:.1f} ms\n",
      flags.entry, m.median, m.least, m.p99, m.runs, m.device, m.first);
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
      m.share() > 1 ? "more than 100%" : fmt::format("{:.0f}%", 100 * m.share()), m.limits.peaks.f32_gflops,
      m.limits.peaks.low_gflops, std::max(m.limits.peaks.copy_gbps, m.limits.peaks.read_gbps),
      m.share() > 1 ? kFasterThanLimits : "");
}

void bench(const BenchFlags& flags, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  const std::string file = model_file(flags.file, *world);
  const std::shared_ptr<const Model> model = load_model(file);
  const NamedTensors inputs = flags.inputs.make_of_rank(model->entry(flags.entry), world->mesh());
  SessionOptions options = session_options(flags.run, world);
  options.zero = flags.zero;
  if (world->is_first()) warn_of_useless_zero(flags.mesh, flags.zero);
  Session session(model, options);
  double first = 0;
  with_nonfinite_page(flags.run, file, session, [&] { first = run_once(session, flags, inputs); });
  check_has_steps(session.plan(flags.entry, inputs), flags.entry);
  const std::vector<double> times = measure(session, flags, inputs, *world);
  const double median = times[times.size() / 2],
               p99 = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  // Runs back to back and measures by the device's clock, which hides uploads, downloads and the work of the host.
  const std::string runs =
      world->said_by_first(std::to_string(static_cast<int>(std::clamp(200 / median, 1.0, 100.0))));
  const double device_ms = 1e3 * session.seconds_per_run(flags.entry, inputs, std::stoi(runs));
  const auto tokens = inputs.find("tokens");
  const int64_t parts = passes::batch_parts(model->entry(flags.entry), world->mesh());
  const double rate =
      tokens == inputs.end() ? 0 : static_cast<double>(parts * tokens->second.numel()) / median * 1000;
  const Plan& plan = session.plan(flags.entry, inputs);
  const Limits limits = limits_of(plan, measured_peaks(session, [&](const DevicePeaks& peaks) {
                                    return limits_of(plan, peaks).least_ms <= device_ms;
                                  }));
  const Measured measured{first,        median, times.front(),    p99,   device_ms,
                          times.size(), rate,   session.memory(), limits};
  flags.out.print(as_json(flags, measured, plan), [&] { print_measured(flags, measured, plan.bindings); });
}

}  // namespace

void add_bench(Command& app) {
  auto flags = std::make_shared<BenchFlags>();
  Command* command = app.add_subcommand("bench", "time an entry point: median, p99, tokens/s");
  command->add_option("file", flags->file, kModelName)->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  add_number(*command, "--runs", flags->runs, "number of runs; 0: as many as fit in --seconds",
             Range<int64_t>{0, 1000000});
  add_number(*command, "--seconds", flags->seconds, "how long to measure", Range<double>{0, 86400});
  flags->inputs.add_to(*command);
  add_zero(*command, add_mesh(*command, flags->mesh), flags->zero);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-run bench qwen2.genesis --entry loss --size batch=8 --size seq=256");
  command->callback([flags, command] {
    check_rules(*command, {{flags->runs > 0, {"--seconds"}, "with --runs, which says how often"}});
    const std::shared_ptr<World> world = join_ranks(flags->mesh, flags->run.device);
    as_rank(*world, [&] { bench(*flags, world); });
  });
}

}  // namespace genesis::tools
