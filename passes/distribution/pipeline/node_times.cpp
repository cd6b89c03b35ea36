#include "passes/distribution/pipeline/node_times.h"

#include <algorithm>

namespace genesis::passes {
namespace {

std::vector<TensorType> at_sizes(std::vector<TensorType> types, const Bindings& sizes) {
  for (TensorType& type : types) type.shape = type.shape.substitute(sizes);
  return types;
}

}  // namespace

Cost cost_of(const Graph& graph, const Node& node, const Bindings& sizes) {
  Attributes attributes = node.attributes;
  for (const auto& [name, value] : node.attributes)
    if (const auto* shape = std::get_if<Shape>(&value)) attributes.set(name, shape->substitute(sizes));
  const std::vector<TensorType> inputs = at_sizes(graph.input_types(node), sizes),
                                outputs = at_sizes(graph.output_types(node), sizes);
  if (node.op->view_offset && node.op->view_offset(attributes, inputs)) return {};
  return genesis::cost_of(*node.op, attributes, inputs, outputs);
}

double time_of(const Graph& graph, const Node& node, const Bindings& sizes, const Target& target) {
  const Cost cost = cost_of(graph, node, sizes);
  return std::max(cost.flops, target.flops_per_byte_of_stages * cost.bytes);
}

}  // namespace genesis::passes
