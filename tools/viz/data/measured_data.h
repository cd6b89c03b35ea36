// A profile as a page shows it: `Measured` of tools/viz/page/data.d.ts.
#pragma once

#include <string>
#include <vector>

#include "executor/runtime/peaks.h"
#include "executor/runtime/runner.h"
#include "schema/graph/plan.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

struct Measurement {
  std::string device;
  int64_t runs = 1;
  std::vector<StepTiming> timings;   // of one run, by step of the plan
  std::vector<double> median_us;     // of each step, over all runs
  std::vector<std::string> kernels;  // by step
  DevicePeaks peaks;
  Json timeline;  // of one run: timeline_data() or joined_timelines(), with "median_us"; null: none
};

// `Timeline` of data.d.ts: the tracks of one rank. Tracks that nothing ran on are left out.
Json timeline_data(const Timeline& timeline, int64_t rank = 0);
// The timelines of several ranks, which began together, as one.
Json joined_timelines(const std::vector<Json>& timelines);

// How long each of `steps` steps took on one rank: from where it began on any track to where it ended on all.
std::vector<double> step_times(const Timeline& timeline, size_t steps);

// Returns the median of each step over several runs. `runs` has the times by run, then by step.
std::vector<double> median_times(const std::vector<std::vector<double>>& runs);

Json measured_data(const Plan& plan, const Measurement& measured, Tables& tables);

}  // namespace genesis::viz
