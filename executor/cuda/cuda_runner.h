// Runs a Plan on one GPU. The whole entry point is captured as a CUDA Graph at the first run after binding and replayed from then
// on. In the steady state nothing is allocated, and the host waits once per run, for the results.
#pragma once

#include <memory>

#include "executor/runtime/device.h"

namespace genesis {

// `plan` must outlive the runner; the device must be current in the calling thread. Throws Error that names the node if a step
// has no kernel.
std::unique_ptr<Runner> make_cuda_runner(const Plan& plan, const RunnerOptions& options,
                                         const StreamSpeeds& speeds, int device, void* stream);

}  // namespace genesis
