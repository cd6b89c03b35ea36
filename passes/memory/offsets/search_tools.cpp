#include "passes/memory/offsets/search_tools.h"

#include <algorithm>
#include <numeric>

namespace genesis::passes {

// Sorts blocks by start section: the blocks that start inside a block's range follow it directly.
ConflictGraph::ConflictGraph(const Problem& problem) {
  const auto& blocks = problem.blocks;
  const std::vector<int64_t> degree = count_conflicts(problem);
  begin_.assign(1, 0);
  for (const int64_t d : degree) begin_.push_back(begin_.back() + static_cast<size_t>(d));
  others_.resize(begin_.back());
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  std::vector<int32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t b) { return blocks[b].first; });
  for (size_t p = 0; p < order.size(); ++p)
    for (size_t q = p + 1; q < order.size() && blocks[order[q]].first < blocks[order[p]].last; ++q) {
      others_[next[order[p]]++] = order[q];
      others_[next[order[q]]++] = order[p];
    }
}

}  // namespace genesis::passes
