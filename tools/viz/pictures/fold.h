// Decides which nodes are drawn as one box: those of repeated layers, and those that differ only in the number that
// makes their names unique.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "schema/graph/graph.h"

namespace genesis::viz {

class Folding {
 public:
  // `graphs`: all graphs of the picture, since nodes of the same name share a box. If not `on`, every node is a box.
  Folding(bool on, const std::vector<const Graph*>& graphs);

  // Returns the name of the node's box. All nodes of a box in one graph have the same op.
  //  "model.layers.3.mlp.up_proj" -> "model.layers.*.mlp.up_proj": replaces only the first number, which counts
  //  layers.
  //  "optimizer.add_12" -> "optimizer.add_*": for many nodes with the same op and attributes.
  const std::string& box_of(const Node& node) const { return boxes_.at(node.name); }
  // Returns "model.layers.3" for a node in a folded layer; "" for other nodes.
  std::string layer_of(const Node& node) const;

 private:
  void add(const Node& node);

  bool on_;
  std::map<std::string, std::set<std::string>> numbered_;  // names by likeness
  std::map<std::string, std::vector<std::string>>
      variants_;                              // likenesses of the boxes that would share a name
  std::map<std::string, std::string> boxes_;  // by node name
};

}  // namespace genesis::viz
