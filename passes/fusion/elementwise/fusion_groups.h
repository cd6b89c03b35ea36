// Decides which nodes run together as one fused region: greedy grouping along the edges of the graph.
// passes/fusion/elementwise/fuse_elementwise writes the regions.
//
// Members share an index space: elementwise nodes of that shape, reductions over its last axis, and elementwise nodes on the
// results of these reductions (one element per row). `full` and `expand` cost nothing inside a region, so every region makes
// its own copies of them: they neither join nor separate regions.
#pragma once

#include "passes/fusion/elementwise/contracted_graph.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

struct FusionGroup {
  std::vector<NodeId> members;  // in order; a node outside of regions is a group of one
  Shape space;
  bool fusable = false;
  bool has_rows = false;  // contains a reduction
};

class FusionGroups {
 public:
  explicit FusionGroups(const Graph& graph);

  // Returns the group of a node; all members have the same group.
  const FusionGroup& of(NodeId node) const { return groups_[index_of(node)]; }
  bool same(NodeId a, NodeId b) const { return index_of(a) == index_of(b); }
  void dissolve(NodeId member);  // splits the group into groups of one

 private:
  size_t index_of(NodeId node) const { return group_of_[static_cast<size_t>(node.index)]; }
  std::vector<std::vector<int32_t>> start_groups();
  void try_merge(NodeId producer, NodeId consumer);

  const Graph& graph_;
  std::vector<size_t> group_of_;  // by node
  std::vector<FusionGroup> groups_;
  ContractedGraph order_;  // keeps groups from waiting for each other
};

// Returns the node whose result `value` is, looking through expansions and through reshapes that only restore a reduction's
// last axis; empty if no node makes it.
NodeId source_of(const Graph& graph, ValueId value);
// Returns whether the node reduces over the last axis, with or without keeping it.
bool reduces_rows(const Graph& graph, const Node& node);
// Returns the shape with a last axis of size 1.
Shape row_shape(const Shape& space);

}  // namespace genesis::passes
