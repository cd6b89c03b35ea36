#include "executor/cuda/planned_joins.h"

#include <algorithm>

namespace genesis {
namespace {

// Returns true if the steps do not simply follow each other on the main stream.
bool is_parted(const StepRange& steps, const StepStreams& streams) {
  for (size_t i = steps.first; i < steps.end; ++i)
    if (streams.stream[i] != StepStreams::kMain ||
        (i > steps.first && streams.waits_for[i] != StepStreams::kNoWaits))
      return true;
  return false;
}

}  // namespace

PlannedJoins::PlannedJoins(const Plan& plan, const KernelNames& disabled, int device) {
  for (const JoiningImplementation& implementation : joining_implementations()) {
    if (disabled.contains(implementation.name)) continue;
    for (std::unique_ptr<JoinedSteps>& made : implementation.make(plan, device)) {
      const auto has_a_step = [&](const auto& better) { return better->steps().overlaps(made->steps()); };
      if (std::ranges::none_of(joins_, has_a_step)) joins_.push_back(std::move(made));
    }
  }
}

void PlannedJoins::rename_kernels(std::vector<std::string>& kernels) const {
  for (const auto& joined : joins_)
    std::fill(kernels.begin() + static_cast<ptrdiff_t>(joined->steps().first),
              kernels.begin() + static_cast<ptrdiff_t>(joined->steps().end), joined->implementation());
}

void PlannedJoins::load(std::span<const StepCall> calls, const StepStreams& streams,
                        std::span<const cuda::Launch> launches) {
  std::erase_if(joins_, [&](const auto& joined) {
    return is_parted(joined->steps(), streams) || !joined->load(calls, launches[joined->steps().first]);
  });
}

const JoinedSteps* PlannedJoins::from(size_t step) const {
  const auto found =
      std::ranges::find_if(joins_, [&](const auto& joined) { return joined->steps().first == step; });
  return found == joins_.end() ? nullptr : found->get();
}

void PlannedJoins::begin_run() {
  for (const auto& joined : joins_) joined->begin_run();
}

std::vector<size_t> PlannedJoins::narrowed(std::vector<size_t> steps) const {
  for (const auto& joined : joins_) {
    const auto inside = [&](size_t step) { return joined->steps().contains(step); };
    const auto begin = std::ranges::find_if(steps, inside);
    if (begin == steps.end()) continue;
    const auto at = steps.erase(begin, std::find_if_not(begin, steps.end(), inside));
    const std::vector<size_t> better = joined->under_way();
    steps.insert(at, better.begin(), better.end());
  }
  return steps;
}

}  // namespace genesis
