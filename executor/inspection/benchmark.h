// Measures the time of an entry point, and compares it with what the device allows.
#pragma once

#include <functional>
#include <string>

#include "executor/distributed/world.h"
#include "executor/inspector.h"
#include "executor/runtime/peaks.h"

namespace genesis {

struct BenchmarkOptions {
  std::string entry = "forward";
  int64_t runs = 0;    // 0: as many as fit in `seconds`, at least 3
  double seconds = 3;  // length of the measurement
};

// Times are in milliseconds.
struct Benchmark {
  double first_ms = 0;  // the first run, with compiling
  double median_ms = 0, least_ms = 0, p99_ms = 0;
  double device_ms = 0;  // back to back by the device's clock, without uploads, downloads and the host
  size_t runs = 0;
  double tokens_per_second = 0;  // rate of all ranks together; 0 if there is no input `tokens`
  MemoryStatistics memory;
  int64_t workspace_bytes = 0;  // the largest scratch memory of a step, which lies in the arena
  // The work of a run, and the least time that the device needs for it by its peaks, which are measured after the runs.
  double gflop = 0, gbytes = 0, needed_ms = 0;
  DevicePeaks peaks;

  double share() const { return needed_ms / device_ms; }
};

// All ranks call it; `inputs` are those of this rank. Throws Error if the entry point has no steps.
Benchmark benchmark(Session& session, const NamedTensors& inputs, const BenchmarkOptions& options,
                    World& world);

// Throws Error if there is nothing to measure, as with sizes of 0.
void check_has_steps(const Plan& plan);

// Measures the device's peaks, at most five times, until `hold(peaks)` says that they are high enough for the timed work: a
// disturbed measurement is too low, and the shares computed from it would be above 100%.
DevicePeaks measure_peaks_until(Session& session, const std::function<bool(const DevicePeaks&)>& hold);

}  // namespace genesis
