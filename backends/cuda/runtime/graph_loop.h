// A loop inside of a captured graph, whose end depends on data: the device decides whether another step follows, so that
// the host need not read the condition. Used by the runner of plans with loops (executor/cuda/cuda_calls.h).
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <limits>
#include <span>

#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

// The numbers by which a kernel decides about the next step. All addresses are on the device.
struct LoopControl {
  const bool* condition = nullptr;  // true: there is a first step
  const bool* goes_on = nullptr;    // true: another step follows, as the last one wrote
  const int64_t* most = nullptr;    // the most steps
  int64_t* number = nullptr;        // the number of the step
  int64_t* count = nullptr;         // receives the number of the steps that ran; null: nobody reads it
  // A step with this number is reported as an index out of range.
  int64_t rows = std::numeric_limits<int64_t>::max();
  FaultReport fault;  // the loop also ends if a kernel has reported a fault
};

struct LoopCopy {
  std::byte* to;
  const std::byte* from;
  int64_t bytes;
  bool is_row;  // copies to number * bytes behind `to`
};

// Makes all copies in parallel: no copy may read what another one writes. `number` is that of the step, on the device.
void copy_all(const Launch& launch, std::span<const LoopCopy> copies, const int64_t* number);

// The work of a step. Its kernels do not start early (launch.h).
struct LoopStep {
  // Issued in this order: what computes the step; what reads the number of the step or its condition; then, behind the
  // decision about the next step, what may overwrite them.
  std::function<void(const Launch&)> run, finish, pass_on;
};
// Captures the loop after the work of `launch.stream`, which is being captured. Throws Error.
void capture_loop(const Launch& launch, const LoopControl& loop, const LoopStep& step);

}  // namespace genesis::cuda
