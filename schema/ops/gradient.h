// GradientContext, the argument of a gradient rule. A rule is written with the same functions that an author calls, and sets the
// gradient of each input that is wanted:
//
//     void Exp::grad(GradientContext& g) const { g.set(0, g.dy() * g.output()); }
#pragma once

#include <vector>

#include "schema/graph/graph.h"

namespace genesis {

class GradientContext {
 public:
  // `node` is in `graph`, to which the rule adds nodes. `dy[i]` is empty if output i has no gradient.
  GradientContext(Graph& graph, NodeId node, std::vector<Value> dy, std::vector<bool> wants);

  Graph& graph() const { return graph_; }
  const Node& node() const { return graph_.node(node_); }
  int num_inputs() const { return static_cast<int>(node().inputs.size()); }
  Value input(int i) const { return {&graph_, node().inputs[static_cast<size_t>(i)]}; }
  Value output(int i = 0) const { return {&graph_, node().outputs[static_cast<size_t>(i)]}; }
  Value dy(int i = 0) const { return dy_[static_cast<size_t>(i)]; }
  bool wants(int i) const { return wants_[static_cast<size_t>(i)]; }

  // Sets the gradient of input i; ignored if it is not wanted. The gradient may have the shape to which the input was broadcast,
  // and another real dtype: autodiff (passes/training/autodiff) sums and casts it to the input's type, once for all rules.
  void set(int i, Value dx);

  // Adds another output to the forward node by changing its attributes ("with_lse"); returns output `index`.
  Value extra_output(const Attributes& attributes, int index);

  const std::vector<Value>& gradients() const { return dx_; }  // by input; empty if none was set

 private:
  Graph& graph_;
  NodeId node_;
  std::vector<Value> dy_;
  std::vector<bool> wants_;
  std::vector<Value> dx_;
};

}  // namespace genesis
