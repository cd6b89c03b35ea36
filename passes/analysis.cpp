#include "passes/analysis.h"

#include "schema/model.h"

namespace genesis::passes {

std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size());
  const auto mark = [&](ValueId id) {
    const NodeId producer = graph.value(id).producer;
    if (producer.index >= 0) live[static_cast<size_t>(producer.index)] = true;
  };
  for (const NamedValue& output : graph.outputs()) mark(output.value);
  for (const StateUpdate& update : graph.updates()) mark(update.value);
  for (size_t i = graph.nodes().size(); i-- > 0;)
    if (live[i])
      for (ValueId input : graph.nodes()[i].inputs) mark(input);
  return live;
}

Uses::Uses(const Graph& graph) : counts_(graph.values().size()), readers_(graph.values().size()) {
  const std::vector<bool> live = live_nodes(graph);
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    const NodeId id{static_cast<int32_t>(i)};
    for (ValueId input : graph.node(id).inputs) {
      ++counts_[static_cast<size_t>(input.index)];
      auto& readers = readers_[static_cast<size_t>(input.index)];
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
  }
  for (const NamedValue& output : graph.outputs()) ++counts_[static_cast<size_t>(output.value.index)];
  for (const StateUpdate& update : graph.updates()) ++counts_[static_cast<size_t>(update.value.index)];
}

NodeId id_of(const Graph& graph, const Node& node) { return graph.value(node.outputs.at(0)).producer; }

const Node* producer(const Graph& graph, ValueId value) {
  const NodeId id = graph.value(value).producer;
  return id.index < 0 ? nullptr : &graph.node(id);
}

const Node* producer(const Graph& graph, ValueId value, std::string_view op) {
  const Node* node = producer(graph, value);
  return node && node->op->name() == op && graph.value(value).index == 0 ? node : nullptr;
}

const Node* sole_producer(const Graph& graph, const Uses& uses, ValueId value, std::string_view op) {
  return uses.single(value) ? producer(graph, value, op) : nullptr;
}

namespace {

std::optional<double> full_value(const Node& node) {
  const AttrValue* value = node.attributes.find("value");
  if (value == nullptr) return std::nullopt;
  if (auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  if (auto* real = std::get_if<double>(value)) return *real;
  return std::nullopt;
}

}  // namespace

std::optional<double> uniform_value(const Graph& graph, ValueId value) {
  const ValueInfo& info = graph.value(value);
  if (info.kind == ValueKind::kConstant) {
    const Tensor& tensor = graph.model().tensors()[static_cast<size_t>(info.index)].tensor;
    return tensor.numel() == 1 ? std::optional(tensor.to_doubles()[0]) : std::nullopt;
  }
  const Node* node = producer(graph, value);
  if (node == nullptr) return std::nullopt;
  const std::string_view op = node->op->name();
  if (op == "full") return full_value(*node);
  if (op == "reshape" || op == "expand") return uniform_value(graph, node->inputs[0]);
  return std::nullopt;
}

}  // namespace genesis::passes
