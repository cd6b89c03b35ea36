// Where a run may have been when it failed, by marks that it sets on its way. Used by cuda_progress.cpp;
// needs no device.
//
// Behind some steps of each stream there is a mark, set when they are done. A run that failed was in the
// steps between the last mark that is set and the first that is not, or in one that begins before those
// ahead of it have ended.
#pragma once

#include <array>
#include <vector>

#include "executor/cuda/step_streams.h"

namespace genesis {

class StepMarks {
 public:
  // `microseconds`: what each step takes at least.
  StepMarks(StepStreams streams, std::vector<double> microseconds);

  static constexpr int kNone = -1;
  // Steps [first, end) of one stream follow, in the plan's order. The number of the mark that belongs behind
  // them, from 0 on, or kNone: marks that follow each other fast, or come when little is left to run beside
  // them, would hold the run up.
  int add(size_t first, size_t end);

  // Steps that a run may have been in, sorted. `set`: by mark, not 0 where it is.
  std::vector<size_t> under_way(const volatile int32_t* set) const;

 private:
  struct Group {
    std::vector<size_t> steps;
    int mark = kNone;  // behind the last of them
  };
  struct Line {
    std::vector<Group> groups;
    double since_mark = 0;  // microseconds
  };

  using OpenSteps = std::array<std::vector<size_t>, StepStreams::kStreams>;  // by stream

  std::vector<size_t> open_steps(const Line& line, const volatile int32_t* set) const;
  void leave_out_waiting(std::vector<size_t>& steps, const OpenSteps& open) const;

  StepStreams streams_;
  std::vector<double> before_;  // by step: microseconds of all before it; and of all
  std::array<Line, StepStreams::kStreams> lines_;
  int count_ = 0;
};

}  // namespace genesis
