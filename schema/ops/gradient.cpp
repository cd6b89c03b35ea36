#include "schema/ops/gradient.h"

namespace genesis {

GradientContext::GradientContext(Graph& graph, NodeId node, std::vector<Value> dy, std::vector<bool> wants)
    : graph_(graph), node_(node), dy_(std::move(dy)), wants_(std::move(wants)), dx_(wants_.size()) {}

void GradientContext::set(int i, Value dx) {
  if (wants(i)) dx_[static_cast<size_t>(i)] = dx;
}

Value GradientContext::extra_output(const Attributes& attributes, int index) {
  graph_.set_attributes(node_, attributes);
  dy_.resize(node().outputs.size());
  return output(index);
}

}  // namespace genesis
