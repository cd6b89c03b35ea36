// Finds the regions of a graph in which ranks along "tensor" can share the tokens: they lie between the sums over the ranks and
// the sharded layers.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "passes/core/pass.h"
#include "passes/distribution/sharding/disjoint_sets.h"
#include "passes/distribution/sharding/row_rules.h"

namespace genesis::passes {

// A region begins at an all_reduce, which gives all ranks the same rows. It continues through nodes that compute row by row
// (sharding/row_rules.h) and whose other operands are the same on all ranks. Any other node that reads such rows ends the
// region and reads them whole.
class RowRegions {
 public:
  // `graph` must outlive this. Logs at level debug, for each region that is not sharded, the reason.
  RowRegions(const Graph& graph, const PassContext& context, const FactorShard& shard);

  bool has_some() const;
  // Returns how a node in a region computes a rank's shard; null if the node is in no region.
  const RowWise* rule_of(const Node& node) const;
  // Returns whether the node is an all_reduce that becomes a reduce_scatter.
  bool begins(const Node& node) const;
  // Returns the number of leading dimensions that are sharded rows; kNoRows if each rank has the whole value.
  int row_dims(ValueId value) const;
  // Returns the value that `value` is a reshape of, in its first shape. Rows are gathered once in that shape for readers of any
  // shape.
  ValueId in_first_shape(ValueId value) const;

 private:
  struct Region;

  size_t& set(ValueId value) { return sets_of_[static_cast<size_t>(value.index)]; }
  int& dims(ValueId value) { return dims_[static_cast<size_t>(value.index)]; }
  void find(const Node& node, const std::vector<bool>& same);
  void begin(const Node& node);
  void add(const Node& node, RowWise rule);
  size_t region_of(ValueId value);
  size_t region_of(const Node& node);
  std::map<size_t, Region> count();
  double bytes_elsewhere(ValueId value) const;
  void drop_regions_that_do_not_pay(const PassContext& context);

  const Graph& graph_;
  const FactorShard shard_;
  std::vector<int> dims_;        // by value id: number of dimensions that are sharded rows, or kNoRows
  std::vector<size_t> sets_of_;  // by value id, for values with rows: the set of the region
  DisjointSets sets_;
  std::vector<std::optional<RowWise>> rules_;  // by node id
  std::vector<bool> begins_;                   // by node id
};

}  // namespace genesis::passes
