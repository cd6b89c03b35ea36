#include "executor/cuda/independent_inputs.h"

#include <algorithm>
#include <set>
#include <utility>

namespace genesis {

std::vector<uint64_t> independent_inputs(const Plan& plan) {
  std::set<std::pair<Space, int32_t>> written;
  std::vector<uint64_t> independent;
  for (const Step& step : plan.steps) {
    uint64_t bits = 0;
    for (size_t i = 0; i < std::min<size_t>(step.inputs.size(), 64); ++i)
      if (const BufferRef& at = step.inputs[i];
          at.space != Space::kArena && !written.count({at.space, at.index}))
        bits |= uint64_t{1} << i;
    independent.push_back(bits);
    for (const BufferRef& at : step.outputs) written.insert({at.space, at.index});
  }
  return independent;
}

}  // namespace genesis
