// Converts a profile to the data of a page: `Measured` of tools/viz/page/data.d.ts.
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
  std::vector<StepTiming> timings;   // by step of the plan, for one run
  std::vector<double> median_us;     // by step, over all runs
  std::vector<std::string> kernels;  // by step
  DevicePeaks peaks;
  Json timeline;  // timeline_data() or joined_timelines() of one run, with "median_us"; null: none
};

// Returns the `Timeline` of data.d.ts with the tracks of one rank. Tracks on which nothing ran are left out.
Json timeline_data(const Timeline& timeline, int64_t rank = 0);
// Joins the timelines of several ranks, which started at the same time.
Json joined_timelines(const std::vector<Json>& timelines);

// Returns the time of each of the `steps` steps on one rank, from its start on any track to its end on all tracks.
std::vector<double> step_times(const Timeline& timeline, size_t steps);

// Returns the median of each step over several runs. `runs` has the times by run, then by step.
std::vector<double> median_times(const std::vector<std::vector<double>>& runs);

Json measured_data(const Plan& plan, const Measurement& measured, Tables& tables);

}  // namespace genesis::viz
