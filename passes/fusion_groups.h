// Which nodes run together as one fused region: greedy grouping along the edges of the graph. Used by
// passes/fuse_elementwise, which writes the regions.
//
// Members share an index space: elementwise nodes of that shape, reductions over its last axis, and
// elementwise nodes on the results of those (one element per row). `full` and `expand` cost nothing inside a
// region, so every region makes them again for itself: they never tie or part regions.
#pragma once

#include "schema/graph.h"

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
  void start_groups();
  void try_merge(NodeId producer, NodeId consumer);
  bool reaches(size_t from, size_t to, bool directly) const;
  void note_extent(const FusionGroup& group);

  const Graph& graph_;
  std::vector<size_t> group_of_;  // by node
  std::vector<FusionGroup> groups_;
  std::vector<std::vector<NodeId>> readers_;  // by node: who depends on it, seen through free nodes
  // By node: the last member of all groups that begin there or before. Only behind it is there no way back: a
  // group that is entered at a late member goes on from its early ones, too.
  std::vector<NodeId> extents_;
};

// The node whose result `value` shows, seen through expansions and through reshapes that only give a
// reduction its last axis back; empty when it is no node's.
NodeId source_of(const Graph& graph, ValueId value);
// A reduction over the last axis, with or without that axis kept.
bool reduces_rows(const Graph& graph, const Node& node);
// x's shape with the last axis of size 1.
Shape row_shape(const Shape& space);

}  // namespace genesis::passes
