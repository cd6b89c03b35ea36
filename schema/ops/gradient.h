// What a gradient rule sees. A rule is written with the same functions an author calls, and gives the
// gradient of each input that is wanted:
//
//   void Exp::grad(GradientContext& g) const { g.set(0, g.dy() * g.output()); }
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis {

class GradientContext {
 public:
  // `node` is in `graph`, to which the rule adds. `dy[i]` is empty where output i has no gradient.
  GradientContext(Graph& graph, NodeId node, std::vector<Value> dy, std::vector<bool> wants);

  Graph& graph() const { return graph_; }
  const Node& node() const { return graph_.node(node_); }
  int num_inputs() const { return static_cast<int>(node().inputs.size()); }
  Value input(int i) const { return {&graph_, node().inputs[static_cast<size_t>(i)]}; }
  Value output(int i = 0) const { return {&graph_, node().outputs[static_cast<size_t>(i)]}; }
  Value dy(int i = 0) const { return dy_[static_cast<size_t>(i)]; }
  bool wants(int i) const { return wants_[static_cast<size_t>(i)]; }

  // Gives the gradient of input i. It may have the shape that the input was broadcast to, and another real dtype: whoever
  // asked for it sums and casts it to the input's (passes/training/autodiff), once for all rules. Ignored when not wanted.
  void set(int i, Value dx);

  // Asks the forward node for another output by changing its attributes ("with_lse"); returns output `index`.
  Value extra_output(const Attributes& attributes, int index);

  const std::vector<Value>& gradients() const { return dx_; }  // by input; empty where none was set

 private:
  Graph& graph_;
  NodeId node_;
  std::vector<Value> dy_;
  std::vector<bool> wants_;
  std::vector<Value> dx_;
};

}  // namespace genesis
