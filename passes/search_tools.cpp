// See the header.
#include "passes/search_tools.h"

namespace genesis::passes {

ConflictGraph::ConflictGraph(const Problem& problem) {
  const auto& blocks = problem.blocks;
  begin_.push_back(0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t j = 0; j < blocks.size(); ++j)
      if (i != j && blocks[i].first < blocks[j].last && blocks[j].first < blocks[i].last)
        others_.push_back(static_cast<int32_t>(j));
    begin_.push_back(others_.size());
  }
}

}  // namespace genesis::passes
