// Writes a profile in the Trace Event Format, for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <string>
#include <vector>

#include "executor/runtime/runner.h"
#include "schema/graph/plan.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

// Writes a process per rank with a track per thread or stream, from `timeline` (viz::timeline_data()), and a process
// with one step after another, from `timings`. Both have a counter of the bytes alive in the arena. `kernels`: by
// step. A null timeline is left out.
void write_trace(const std::string& path, const std::string& device, const Plan& plan,
                 const std::vector<StepTiming>& timings, const std::vector<std::string>& kernels,
                 const Json& timeline);

}  // namespace genesis::viz
