// Groups the dimensions of a graph's values that are sharded together, by the factors of its nodes. The pass partition uses it
// for values that must be sharded although none of their operands is, such as the gradient of a table with sharded rows.
#pragma once

#include "passes/distribution/sharding/disjoint_sets.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

class DimensionGroups {
 public:
  explicit DimensionGroups(const Graph& graph);
  // Returns the group of a dimension; equal for dimensions that are sharded together.
  size_t of(ValueId value, int dim) {
    return groups_.find(first_[static_cast<size_t>(value.index)] + static_cast<size_t>(dim));
  }

 private:
  DisjointSets groups_;
  std::vector<size_t> first_;  // by value id: number of its first dimension
};

}  // namespace genesis::passes
