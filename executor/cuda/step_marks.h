// Finds the steps in which a run may have been when it failed, from marks that the run sets as it goes. Needs no device.
//
// There is a mark behind some steps of each stream, set when they are done. A failed run was in the steps between the last mark
// that is set and the first that is not, or in the step after these, which may begin before its predecessors have ended.
#pragma once

#include <array>
#include <vector>

#include "executor/cuda/step_streams.h"

namespace genesis {

class StepMarks {
 public:
  // `microseconds`: the minimum duration of each step.
  StepMarks(StepStreams streams, std::vector<double> microseconds);

  static constexpr int kNone = -1;
  // Adds the steps [first, end) of one stream, in the plan's order. Returns the number of the mark to put behind them, counted
  // from 0, or kNone. Marks that are too close, or near the end of the run where little work is left to overlap with, would slow
  // the run down.
  int add(size_t first, size_t end);

  // Returns the steps that a run may have been in, sorted. `set`, by mark: not 0 if the mark is set.
  std::vector<size_t> under_way(const volatile int32_t* set) const;

 private:
  struct Group {
    std::vector<size_t> steps;
    int mark = kNone;  // behind the last of the steps
  };
  struct Line {
    std::vector<Group> groups;
    double since_mark = 0;  // microseconds
  };

  using OpenSteps = std::array<std::vector<size_t>, StepStreams::kStreams>;  // by stream

  std::vector<size_t> open_steps(const Line& line, const volatile int32_t* set) const;
  void leave_out_waiting(std::vector<size_t>& steps, const OpenSteps& open) const;

  StepStreams streams_;
  std::vector<double> before_;  // prefix sums by step: microseconds of all earlier steps; the last: of all
  std::array<Line, StepStreams::kStreams> lines_;
  int count_ = 0;
};

}  // namespace genesis
