// genesis-run bench: how long an entry point takes.
#include <algorithm>
#include <chrono>
#include <iostream>

#include "schema/file/reader.h"
#include "tools/run_commands.h"
#include "tools/run_inputs.h"

namespace genesis::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string file, entry = "forward";
  int64_t runs = 0;
  double seconds = 3;
  InputFlags inputs;
  RunFlags run;
  Output out;
};

double run_once(Session& session, const Flags& flags, const NamedTensors& inputs) {
  const auto start = Clock::now();
  session.run(flags.entry, inputs);
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<double> measure(Session& session, const Flags& flags, const NamedTensors& inputs) {
  std::vector<double> times;
  double total = 0;
  while (flags.runs > 0 ? static_cast<int64_t>(times.size()) < flags.runs
                        : total < flags.seconds * 1000 || times.size() < 3) {
    times.push_back(run_once(session, flags, inputs));
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  return times;
}

// The most any step asks for beside its tensors; it lies in the arena.
int64_t workspace_bytes(const Plan& plan) {
  int64_t most = 0;
  for (const Step& step : plan.steps) most = std::max(most, step.scratch_bytes);
  return most;
}

// What the device's limits, measured now, would allow.
struct Limits {
  DevicePeaks peaks;
  double least_ms = 0, gflop = 0, gbytes = 0;
};

Limits limits_of(const Plan& plan, const DevicePeaks& peaks) {
  Limits limits{peaks};
  for (const Step& step : plan.steps) {
    const Cost cost = cost_of(step);
    limits.least_ms += 1e-3 * peaks.microseconds(step);
    limits.gflop += 1e-9 * cost.flops;
    limits.gbytes += 1e-9 * cost.bytes;
  }
  return limits;
}

void bench(const Flags& flags) {
  if (flags.runs < 0)
    fail("--runs {}: expected 0 (as many as fit in --seconds) or a positive number", flags.runs);
  const std::shared_ptr<const Model> model = load_model(flags.file);
  const NamedTensors inputs = flags.inputs.make(model->entry(flags.entry));
  Session session(model, flags.run.session_options());
  const double first = run_once(session, flags, inputs);
  const std::vector<double> times = measure(session, flags, inputs);
  const double median = times[times.size() / 2],
               p99 = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  // Back to back by the device's clock: what remains when uploads, downloads and the host are hidden.
  const double device_ms =
      1e3 * session.seconds_per_run(flags.entry, inputs, std::clamp(static_cast<int>(200 / median), 1, 100));
  const auto tokens = inputs.find("tokens");
  const double rate =
      tokens == inputs.end() ? 0 : static_cast<double>(tokens->second.numel()) / median * 1000;
  const MemoryStatistics memory = session.memory();
  const Plan& plan = session.plan_for(flags.entry, inputs);
  const Limits limits = limits_of(plan, session.measure_peaks());
  flags.out.print(
      {{"entry", flags.entry},
       {"runs", times.size()},
       {"first_ms", first},
       {"median_ms", median},
       {"min_ms", times.front()},
       {"p99_ms", p99},
       {"device_ms", device_ms},
       {"tokens_per_second", rate},
       {"arena_bytes", memory.arena_bytes},
       {"state_bytes", memory.state_bytes},
       {"workspace_bytes", workspace_bytes(plan)},
       {"device_bytes", memory.device_bytes},
       {"device_peak_bytes", memory.device_peak_bytes},
       {"peaks", peaks_json(limits.peaks)},
       {"gflop", limits.gflop},
       {"gbytes", limits.gbytes},
       {"share_of_peak", limits.least_ms / device_ms}},
      [&] {
        std::cout << fmt::format(
            "{}: median {:.3f} ms, min {:.3f}, p99 {:.3f} over {} runs, {:.3f} back to back on the "
            "device; first run (with compiling) {:.1f} ms\n",
            flags.entry, median, times.front(), p99, times.size(), device_ms, first);
        if (rate > 0) std::cout << fmt::format("{} tokens/s\n", human_count(rate));
        std::cout << fmt::format("arena {}, states {}\n",
                                 human_bytes(static_cast<double>(memory.arena_bytes)),
                                 human_bytes(static_cast<double>(memory.state_bytes)));
        if (memory.device_bytes > 0)
          std::cout << fmt::format("held on the device {}, at most {}\n",
                                   human_bytes(static_cast<double>(memory.device_bytes)),
                                   human_bytes(static_cast<double>(memory.device_peak_bytes)));
        std::cout << fmt::format(
            "{:.0f}% of what this device allows: products at {:.0f} GFLOP/s f32 or {:.0f} with 16 bits, "
            "{:.0f} "
            "GB/s (every step's bytes or products at these rates)\n",
            100 * limits.least_ms / device_ms, limits.peaks.f32_gflops, limits.peaks.low_gflops,
            limits.peaks.copy_gbps);
      });
}

}  // namespace

void add_bench(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("bench", "time an entry point: median, p99, tokens/s");
  command->add_option("file", flags->file, "a .genesis file")->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  command->add_option("--runs", flags->runs, "number of runs; 0: as many as fit in --seconds")
      ->capture_default_str();
  command->add_option("--seconds", flags->seconds, "how long to measure")->capture_default_str();
  flags->inputs.add_to(*command);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-run bench qwen2.genesis --entry loss --size batch=8 --size seq=256");
  command->callback([flags] { bench(*flags); });
}

}  // namespace genesis::tools
