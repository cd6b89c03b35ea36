// Which nodes are drawn as one box: those of repeated layers, and those that differ only in the number that
// makes their names unique. Used by dot.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::viz {

class Folding {
 public:
  // All graphs that are drawn, for nodes of the same name share a box. Off: every node is a box.
  Folding(bool on, const std::vector<const Graph*>& graphs);

  // The name of the node's box. All nodes of a box that are in one graph have the same op.
  // "model.layers.3.mlp.up_proj" -> "model.layers.*.mlp.up_proj": only the first number, which counts layers.
  // "optimizer.add_12" -> "optimizer.add_*", where many have the same op and attributes.
  const std::string& box_of(const Node& node) const { return boxes_.at(node.name); }
  // "model.layers.3" of a folded layer; "" of what is not in one.
  std::string layer_of(const Node& node) const;

 private:
  void add(const Node& node);

  bool on_;
  std::map<std::string, std::set<std::string>> numbered_;  // what is alike -> names
  std::map<std::string, std::vector<std::string>>
      variants_;                              // a name that several boxes would have -> what they are
  std::map<std::string, std::string> boxes_;  // by node
};

}  // namespace genesis::viz
