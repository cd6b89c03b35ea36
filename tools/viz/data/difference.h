// Finds the differences between two graphs by the names of their nodes, inputs and outputs, for genesis-viz --diff.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::viz {

enum class Change : uint8_t { kSame, kAdded, kGone, kChanged };
inline constexpr size_t kChanges = 4;

// The change of a node. Nodes with the same name in both graphs are the same node; `what` lists how it differs.
struct NodeChange {
  Change change = Change::kSame;
  std::vector<std::string> what;  // "op: linear -> matmul", "attribute axis: 0 -> 1"; kChanged only
};

class Difference {
 public:
  Difference(const Graph& before, const Graph& after);

  const NodeChange& node(const std::string& name) const { return nodes_.at(name); }
  const NodeChange& input(const std::string& name) const { return inputs_.at(name); }
  const NodeChange& output(const std::string& name) const { return outputs_.at(name); }
  size_t count(Change change) const;  // number of nodes with this change

 private:
  std::map<std::string, NodeChange> nodes_, inputs_, outputs_;
};

}  // namespace genesis::viz
