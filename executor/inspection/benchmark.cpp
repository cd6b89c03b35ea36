#include "executor/inspection/benchmark.h"

#include <algorithm>
#include <chrono>

#include "executor/runtime/roofline.h"
#include "passes/distribution/rank_sizes.h"

namespace genesis {
namespace {

using Clock = std::chrono::steady_clock;

double run_once(Session& session, const std::string& entry, const NamedTensors& inputs) {
  const auto start = Clock::now();
  session.run(entry, inputs);
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Returns sorted times in ms. Rank 0 decides on the number of runs, since clocks of ranks differ.
std::vector<double> measure(Session& session, const NamedTensors& inputs, const BenchmarkOptions& options,
                            World& world) {
  std::vector<double> times;
  double total = 0;
  const auto wants_more = [&] {
    return options.runs > 0 ? static_cast<int64_t>(times.size()) < options.runs
                            : total < options.seconds * 1000 || times.size() < 3;
  };
  while (world.agreed_by_first(wants_more())) {
    times.push_back(run_once(session, options.entry, inputs));
    total += times.back();
  }
  std::ranges::sort(times);
  return times;
}

double needed_ms(const Plan& plan, const DevicePeaks& peaks) {
  double sum = 0;
  for (const double least_us : least_microseconds(plan, peaks)) sum += 1e-3 * least_us;
  return sum;
}

void add_work(const Plan& plan, Benchmark& result) {
  for (const Step& step : plan.steps) {
    const Cost cost = cost_of(step);
    result.gflop += 1e-9 * cost.flops;
    result.gbytes += 1e-9 * cost.bytes;
    result.workspace_bytes = std::max(result.workspace_bytes, step.scratch_bytes);
  }
}

}  // namespace

void check_has_steps(const Plan& plan) {
  if (!plan.steps.empty()) return;
  std::string text;
  for (const auto& [symbol, size] : plan.bindings)
    text += fmt::format("{} --size {}={}", text.empty() ? " with" : "", symbol, size);
  fail("entry point '{}' has nothing to run{}", plan.entry, text);
}

DevicePeaks measure_peaks_until(Session& session, const std::function<bool(const DevicePeaks&)>& hold) {
  DevicePeaks peaks = Inspector(session).measure_peaks();
  for (int again = 0; again < 4 && !hold(peaks); ++again)
    peaks.take_larger(Inspector(session).measure_peaks());
  return peaks;
}

Benchmark benchmark(Session& session, const NamedTensors& inputs, const BenchmarkOptions& options,
                    World& world) {
  Benchmark result;
  result.first_ms = run_once(session, options.entry, inputs);
  check_has_steps(session.plan(options.entry, inputs));
  const std::vector<double> times = measure(session, inputs, options, world);
  result.runs = times.size();
  result.least_ms = times.front();
  result.median_ms = times[times.size() / 2];
  result.p99_ms = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  const std::string repeats =
      world.said_by_first(std::to_string(static_cast<int>(std::clamp(200 / result.median_ms, 1.0, 100.0))));
  result.device_ms = 1e3 * Inspector(session).seconds_per_run(options.entry, inputs, std::stoi(repeats));
  const Graph& entry = session.model().entry(options.entry);
  if (const auto tokens = inputs.find("tokens"); tokens != inputs.end())
    result.tokens_per_second =
        static_cast<double>(passes::batch_parts(entry, world.mesh()) * tokens->second.numel()) /
        result.median_ms * 1000;
  const Plan& plan = session.plan(options.entry, inputs);
  add_work(plan, result);
  result.memory = Inspector(session).memory();  // before the peaks, whose operands take memory of their own
  result.peaks = measure_peaks_until(
      session, [&](const DevicePeaks& peaks) { return needed_ms(plan, peaks) <= result.device_ms; });
  result.needed_ms = needed_ms(plan, result.peaks);
  return result;
}

}  // namespace genesis
