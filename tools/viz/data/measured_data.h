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
  std::vector<StepTiming> timings;   // by step of the plan
  std::vector<std::string> kernels;  // likewise
  DevicePeaks peaks;
  Json timeline;  // of timeline_data(), or of several ranks; null: none
};

// `Timeline` of data.d.ts: the tracks of one rank. Tracks that nothing ran on are left out.
Json timeline_data(const Timeline& timeline, int64_t rank = 0);
// The timelines of several ranks, which began together, as one.
Json joined_timelines(const std::vector<Json>& timelines);

Json measured_data(const Plan& plan, const Measurement& measured, Tables& tables);

}  // namespace genesis::viz
