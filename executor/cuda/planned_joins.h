// The launches of one plan that run several steps each (joined_steps.h): made by all implementations that are not switched off,
// and dropped one by one if they cannot be captured.
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

  // Returns true if there is a joined launch. Their progress is known only for the first of several runs that follow each other.
  bool has_some() const { return !joins_.empty(); }
  // Replaces the names in `kernels`, by step, of the kernels that would run each step alone, for the steps that are joined.
  void rename_kernels(std::vector<std::string>& kernels) const;
  // Prepares for a capture, with the calls bound. Drops the launches whose steps do not simply follow each other on the main
  // stream, and those that cannot run with these addresses. `launches` is by step.
  void load(std::span<const StepCall> calls, const StepStreams& streams,
            std::span<const cuda::Launch> launches);
  // Returns the joined launch that begins with this step; null: the step starts alone.
  const JoinedSteps* from(size_t step) const;

  // Resets the progress. Call it before a run, when no run is under way.
  void begin_run();
  // Narrows the steps that may have been under way when a run failed to those that joined launches report, in the plan's order.
  std::vector<size_t> narrowed(std::vector<size_t> steps) const;

 private:
  std::vector<std::unique_ptr<JoinedSteps>> joins_;
};

}  // namespace genesis
