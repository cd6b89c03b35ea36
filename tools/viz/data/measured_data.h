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
};

Json measured_data(const Plan& plan, const Measurement& measured, Tables& tables);

}  // namespace genesis::viz
