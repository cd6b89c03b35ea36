// Ways that run several consecutive steps of a plan in one launch, as rows that the CUDA runner, `--disable` and reports go by:
// none of them knows a way by name. Each way lies in a folder of its own beside this file, which nothing includes, and has its
// row in joined_steps.cpp. The rows are there in a build without CUDA too, so that names mean the same everywhere.
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

// Steps [first, end) of a plan.
struct StepRange {
  size_t first = 0, end = 0;

  bool contains(size_t step) const { return step >= first && step < end; }
  bool overlaps(const StepRange& other) const { return first < other.end && other.first < end; }
};

// Consecutive steps of one plan, joined into one launch by a way.
class JoinedSteps {
 public:
  // `way`: its name, which outlives this.
  JoinedSteps(std::string_view way, StepRange steps) : way_(way), range_(steps) {}
  JoinedSteps(const JoinedSteps&) = delete;
  JoinedSteps& operator=(const JoinedSteps&) = delete;
  virtual ~JoinedSteps() = default;

  std::string_view way() const { return way_; }
  const StepRange& steps() const { return range_; }

  // Before each capture. Takes the addresses that the calls of the plan are bound to; what it copies is there behind what
  // launch.stream does. False: it cannot run with these addresses, and the steps run one by one from now on. `launch`, here and
  // below: of the first of the steps.
  virtual bool load(std::span<const StepCall> calls, const cuda::Launch& launch) = 0;
  // Faults are reported as launch.fault says, with the number of the step that found them.
  virtual void start(const cuda::Launch& launch) const = 0;
  // Before a run, when none goes on.
  virtual void begin_run() = 0;
  // Steps that a run which failed in this launch was in, or beside.
  virtual std::vector<size_t> under_way() const = 0;

 private:
  std::string_view way_;
  StepRange range_;
};

// What a way could join of a plan.
struct JoinableSteps {
  std::vector<StepRange> ranges;  // in order, each one launch
  // By step: why it is in none; empty where it is in one, or where the way is not for such ops.
  std::vector<std::string> declined;
};

// A row of the list.
struct JoiningWay {
  std::string_view name;           // as --disable and reports have it
  const char* decided_later = "";  // what is decided only where a plan runs, in words
  // Needs no device. Null in a build without CUDA, and so is the next.
  JoinableSteps (*find)(const Plan& plan) = nullptr;
  // Of what find() finds, what the current device can run. `device`: its number; the plan may go before they do.
  std::vector<std::unique_ptr<JoinedSteps>> (*make)(const Plan& plan, int device) = nullptr;
};

// Best first: where two ways want a step, the first has it.
std::span<const JoiningWay> joining_ways();

// By step, the way that joins it with its neighbours, without a name where none does, and why not. `disabled`: names of ways
// that are switched off.
std::vector<KernelChoice> choose_joined(std::span<const JoiningWay> ways, const Plan& plan,
                                        const KernelNames& disabled);

// The rows, each beside its way.
JoiningWay megakernel_way();  // megakernel/cuda_megakernel.cpp

}  // namespace genesis
