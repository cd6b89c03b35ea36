#include "schema/graph/cost_model.h"

namespace genesis {
namespace {

std::vector<TensorType> at_sizes(std::vector<TensorType> types, const Bindings& sizes) {
  for (TensorType& type : types) type.shape = type.shape.substitute(sizes);
  return types;
}

}  // namespace

Cost cost_of(const Graph& graph, const Node& node) {
  return cost_of(*node.op, node.attributes, graph.input_types(node), graph.output_types(node));
}

Cost cost_of(const Graph& graph, const Node& node, const Bindings& sizes) {
  Attributes attributes = node.attributes;
  for (const auto& [name, value] : node.attributes)
    if (const auto* shape = std::get_if<Shape>(&value)) attributes.set(name, shape->substitute(sizes));
  const std::vector<TensorType> inputs = at_sizes(graph.input_types(node), sizes),
                                outputs = at_sizes(graph.output_types(node), sizes);
  if (node.op->view_offset && node.op->view_offset(attributes, inputs)) return {};
  return cost_of(*node.op, attributes, inputs, outputs);
}

}  // namespace genesis
