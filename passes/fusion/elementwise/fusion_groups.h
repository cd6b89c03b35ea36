// Which nodes run together as one fused region: greedy grouping along the edges of the graph. Used by
// passes/fusion/elementwise/fuse_elementwise, which writes the regions.
//
// Members share an index space: elementwise nodes of that shape, reductions over its last axis, and
// elementwise nodes on the results of those (one element per row). `full` and `expand` cost nothing inside a
// region, so every region makes them again for itself: they never tie or part regions.
#pragma once

#include "passes/fusion/elementwise/contracted_graph.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

struct FusionGroup {
  std::vector<NodeId> members;  // in order; a node that stands alone is a group of one
  Shape space;
  bool fusable = false;
  bool has_rows = false;  // reduces
};

class FusionGroups {
 public:
  explicit FusionGroups(const Graph& graph);

  // By node; a group appears under each of its members.
  const FusionGroup& of(NodeId node) const { return groups_[index_of(node)]; }
  bool same(NodeId a, NodeId b) const { return index_of(a) == index_of(b); }
  void dissolve(NodeId member);  // every member stands alone from now on

 private:
  size_t index_of(NodeId node) const { return group_of_[static_cast<size_t>(node.index)]; }
  std::vector<std::vector<int32_t>> start_groups();
  void try_merge(NodeId producer, NodeId consumer);

  const Graph& graph_;
  std::vector<size_t> group_of_;  // by node
  std::vector<FusionGroup> groups_;
  ContractedGraph order_;  // what keeps groups from waiting for each other
};

// The node whose result `value` shows, seen through expansions and through reshapes that only give a
// reduction its last axis back; empty when it is no node's.
NodeId source_of(const Graph& graph, ValueId value);
// A reduction over the last axis, with or without that axis kept.
bool reduces_rows(const Graph& graph, const Node& node);
// x's shape with the last axis of size 1.
Shape row_shape(const Shape& space);

}  // namespace genesis::passes
