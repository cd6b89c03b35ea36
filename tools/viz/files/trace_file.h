// A profile as a file for chrome://tracing and ui.perfetto.dev: the Trace Event Format.
#pragma once

#include <string>
#include <vector>

#include "executor/runtime/runner.h"
#include "schema/graph/plan.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

// A process for each rank with a track for each thread or stream, as `timeline` (viz::timeline_data()) has them; a process
// with the steps one after the other, as `timings` has them; and beside both a counter of what is alive in the arena.
// `kernels`: by step. A timeline of null is left out.
void write_trace(const std::string& path, const std::string& device, const Plan& plan,
                 const std::vector<StepTiming>& timings, const std::vector<std::string>& kernels,
                 const Json& timeline);

}  // namespace genesis::viz
