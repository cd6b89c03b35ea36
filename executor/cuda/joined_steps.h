// Implementations that run several consecutive steps of a plan in one launch, as a list of rows. The CUDA runner, `--disable` and
// reports use the list and know no implementation by name. Each implementation has its own folder beside this file, which nothing
// else includes, and its row in joined_steps.cpp. The rows exist in a build without CUDA too, so that names mean the same
// everywhere.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/runtime/step_call.h"
#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis {

namespace cuda {
struct Launch;
}

// The steps [first, end) of a plan.
struct StepRange {
  size_t first = 0, end = 0;

  bool contains(size_t step) const { return step >= first && step < end; }
  bool overlaps(const StepRange& other) const { return first < other.end && other.first < end; }
};

// Consecutive steps of one plan, joined into one launch by one implementation.
class JoinedSteps {
 public:
  // `name` is the name of the implementation; it must outlive this object.
  JoinedSteps(std::string_view name, StepRange steps) : implementation_(name), range_(steps) {}
  JoinedSteps(const JoinedSteps&) = delete;
  JoinedSteps& operator=(const JoinedSteps&) = delete;
  virtual ~JoinedSteps() = default;

  std::string_view implementation() const { return implementation_; }
  const StepRange& steps() const { return range_; }

  // Prepares for a capture, with the addresses that the calls of the plan are bound to. Its copies are complete behind the work
  // on launch.stream. Returns false if the launch cannot run with these addresses; the steps then run one by one from now on.
  // `launch`, here and below, is that of the first of the steps.
  virtual bool load(std::span<const StepCall> calls, const cuda::Launch& launch) = 0;
  // Starts the launch. Faults are reported as launch.fault says, with the number of the step that found them.
  virtual void start(const cuda::Launch& launch) const = 0;
  // Resets the progress. Call it before a run, when no run is under way.
  virtual void begin_run() = 0;
  // Returns the steps that a run which failed in this launch may have been in.
  virtual std::vector<size_t> under_way() const = 0;

 private:
  std::string_view implementation_;
  StepRange range_;
};

// Tells which steps of a plan an implementation could join.
struct JoinableSteps {
  std::vector<StepRange> ranges;  // in order; each becomes one launch
  // By step: why it is in no range. Empty if it is in one, or if the implementation does not handle such ops at all.
  std::vector<std::string> declined;
};

// One implementation: a row of the list.
struct JoiningImplementation {
  std::string_view name;           // the name in --disable and in reports
  const char* decided_later = "";  // in words: what is decided only when a plan runs
  // Finds the steps that could be joined. Needs no device. `find` and `make` are null in a build without CUDA.
  JoinableSteps (*find)(const Plan& plan) = nullptr;
  // Makes the launches among those of find() that the current device (number `device`) can run. The plan may be destroyed before
  // them.
  std::vector<std::unique_ptr<JoinedSteps>> (*make)(const Plan& plan, int device) = nullptr;
};

// Returns the list, best first: if two implementations want a step, the first one gets it.
std::span<const JoiningImplementation> joining_implementations();

// Returns for each step the implementation that joins it with its neighbors (an empty name if none does), and why others decline
// it. `disabled` has the names of implementations that are switched off.
std::vector<KernelChoice> choose_joined(std::span<const JoiningImplementation> implementations,
                                        const Plan& plan, const KernelNames& disabled);

// The rows, each defined beside its implementation.
JoiningImplementation megakernel_implementation();  // megakernel/cuda_megakernel.cpp

}  // namespace genesis
