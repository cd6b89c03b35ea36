// The launches of one plan that do several steps each (joined_steps.h), as the CUDA runner has them: made by all ways that are
// not switched off, and one by one left out where they cannot be captured. Used by cuda_runner.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/runtime/launch.h"
#include "executor/cuda/joined_steps.h"
#include "executor/cuda/step_streams.h"

namespace genesis {

class PlannedJoins {
 public:
  // The device must be current in the calling thread.
  PlannedJoins(const Plan& plan, const KernelNames& disabled, int device);

  // What joined launches tell of where they are holds for the first of several runs alone.
  bool has_some() const { return !joins_.empty(); }
  // `kernels`, by step: what would run it alone; a way takes its place where it joins the step.
  void rename_kernels(std::vector<std::string>& kernels) const;
  // Before each capture, with the calls bound. Leaves those out whose steps do not simply follow each other, and those that
  // cannot run with these addresses. `launches`: by step.
  void load(std::span<const StepCall> calls, const StepStreams& streams,
            std::span<const cuda::Launch> launches);
  // The one that begins with this step; null: the step starts alone.
  const JoinedSteps* from(size_t step) const;

  // Before a run, when none goes on.
  void begin_run();
  // Steps that may have been under way when a run failed, in the plan's order, narrowed to those that joined launches report.
  std::vector<size_t> narrowed(std::vector<size_t> steps) const;

 private:
  std::vector<std::unique_ptr<JoinedSteps>> joins_;
};

}  // namespace genesis
