#include "executor/cuda/step_marks.h"

#include <algorithm>
#include <numeric>

namespace genesis {
namespace {

constexpr double kApart = 100;  // minimum microseconds between two marks; a mark adds 0.3 to the run's time

}  // namespace

StepMarks::StepMarks(StepStreams streams, std::vector<double> microseconds)
    : streams_(std::move(streams)), before_(std::move(microseconds)) {
  before_.push_back(0);
  std::exclusive_scan(before_.begin(), before_.end(), before_.begin(), 0.0);
}

int StepMarks::add(size_t first, size_t end) {
  Line& line = lines_[streams_.stream[first]];
  if (line.groups.empty() || line.groups.back().mark != kNone) line.groups.emplace_back();
  Group& group = line.groups.back();
  for (size_t step = first; step < end; ++step) group.steps.push_back(step);
  line.since_mark += before_[end] - before_[first];
  if (line.since_mark < kApart || before_.back() - before_[end] < kApart) return kNone;
  line.since_mark = 0;
  return group.mark = count_++;
}

// Returns the steps of the first group whose mark is not set, and the first step behind them: that step may have begun early, or
// the mark may not have arrived when the run failed.
std::vector<size_t> StepMarks::open_steps(const Line& line, const volatile int32_t* set) const {
  const auto is_open = [&](const Group& group) { return group.mark == kNone || set[group.mark] == 0; };
  const auto open = std::find_if(line.groups.begin(), line.groups.end(), is_open);
  if (open == line.groups.end()) return {};
  std::vector<size_t> steps = open->steps;
  if (const auto next = open + 1; next != line.groups.end()) steps.push_back(next->steps.front());
  return steps;
}

// Removes from `steps` the first one that waits for a step its stream has not reached yet, and all steps behind it.
void StepMarks::leave_out_waiting(std::vector<size_t>& steps, const OpenSteps& open) const {
  const auto waits = [&](size_t step) {
    for (size_t other = 0; other < open.size(); ++other) {
      const int32_t awaited = streams_.waits_for[step][other];
      if (awaited >= 0 && !open[other].empty() && static_cast<size_t>(awaited) > open[other].back())
        return true;
    }
    return false;
  };
  steps.erase(std::find_if(steps.begin(), steps.end(), waits), steps.end());
}

std::vector<size_t> StepMarks::under_way(const volatile int32_t* set) const {
  OpenSteps open;
  for (size_t i = 0; i < open.size(); ++i) open[i] = open_steps(lines_[i], set);
  std::vector<size_t> all;
  for (std::vector<size_t> steps : open) {
    leave_out_waiting(steps, open);
    all.insert(all.end(), steps.begin(), steps.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace genesis
