// Dimensions of one graph's values that go together, as the factors of its nodes say. The pass partition asks which values
// are to be parts though nothing that they are made of is one, such as the gradient of a table whose rows are cut.
#pragma once

#include "passes/distribution/sharding/disjoint_sets.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

class DimensionGroups {
 public:
  explicit DimensionGroups(const Graph& graph);
  // Equal for dimensions that go together.
  size_t of(ValueId value, int dim) {
    return groups_.find(first_[static_cast<size_t>(value.index)] + static_cast<size_t>(dim));
  }

 private:
  DisjointSets groups_;
  std::vector<size_t> first_;  // by value: its first dimension
};

}  // namespace genesis::passes
