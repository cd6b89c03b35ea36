// Runs a Plan on the CPU with TBB. The caller must be inside the task arena that sets the number of threads.
#pragma once

#include <memory>

#include "executor/runtime/runner.h"
#include "schema/graph/target.h"

namespace genesis {

// `plan` must outlive the runner. Throws Error that names the node if a step has no kernel.
std::unique_ptr<Runner> make_cpu_runner(const Plan& plan, const RunnerOptions& options, const Target& target);

}  // namespace genesis
