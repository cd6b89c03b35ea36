#include "schema/graph/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "schema/graph/state_storage.h"

namespace genesis {
namespace {

bool is_plain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

std::string quoted_if_needed(const std::string& name) {
  return is_plain(name) ? name : to_string(AttrValue(name));
}

std::string value_text(const Graph& graph, ValueId id) {
  const ValueInfo& value = graph.value(id);
  switch (value.kind) {
    case ValueKind::kInput:
      return quoted_if_needed(value.name);
    case ValueKind::kState:
      return "@" + quoted_if_needed(graph.model().state(value.index).name);
    case ValueKind::kConstant:
      return "#" + quoted_if_needed(graph.model().tensors()[static_cast<size_t>(value.index)].name);
    case ValueKind::kNode:
      break;
  }
  const std::string text = "%" + quoted_if_needed(graph.node(value.producer).name);
  return value.index == 0 ? text : text + ":" + std::to_string(value.index);
}

// Returns the attributes that differ from the op's defaults.
std::string attributes_text(const Node& node) {
  const Attributes defaults = node.op->canonical({});
  Attributes shown;
  for (const auto& [name, value] : node.attributes) {
    Attributes one, standard;
    one.set(name, value);
    if (const AttrValue* at = defaults.find(name)) standard.set(name, *at);
    if (!(one == standard)) shown.set(name, value);
  }
  return shown.size() == 0 ? "" : " " + shown.to_string();
}

template <class T>
std::string number_text(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return x ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(static_cast<int64_t>(x));
  else if constexpr (std::is_same_v<T, double>)
    return to_string(AttrValue(x));
  else  // the shortest digits that give this float
    return to_string(AttrValue(std::stod(fmt::format("{}", static_cast<float>(x)))));
}

std::string tensor_text(const Tensor& tensor, const TextOptions& options) {
  if (tensor.numel() > options.max_values) return "...";
  return dispatch(tensor.type().dtype, [&](auto tag) {
    std::string text = "(";
    for (auto x : tensor.as<typename decltype(tag)::type>())
      text += (text.size() > 1 ? ", " : "") + number_text(x);
    return text + ")";
  });
}

std::string state_text(const State& state, const TextOptions& options) {
  std::string text = fmt::format("state @{}: {} {}", quoted_if_needed(state.name), state.type.to_string(),
                                 name_of(state.role));
  if (const auto& cache = state.cache) {
    text += fmt::format(" of {} rows {}", quoted_if_needed(cache->kind), cache->rows_axis);
    if (cache->positions_axis >= 0) text += fmt::format(" positions {}", cache->positions_axis);
  }
  if (state.trainable) text += " trainable";
  if (state.encoded) text += fmt::format(" as {}", state.encoded.format->name);
  for (const Tensor& part : state.encoded.parts) text += " = " + tensor_text(part, options);
  if (!state.initial.empty_handle()) text += " = " + tensor_text(state.initial, options);
  return text + "\n";
}

}  // namespace

std::string node_text(const Graph& graph, const Node& node, const TextOptions& options) {
  std::string text = "%" + quoted_if_needed(node.name) + " = " + std::string(node.op->name()) + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + value_text(graph, node.inputs[i]);
  text += ")" + attributes_text(node) + " :";
  for (size_t i = 0; i < node.outputs.size(); ++i)
    text += (i ? ", " : " ") + graph.type(node.outputs[i]).to_string();
  if (options.origins && !node.origins.empty()) text += fmt::format("  // {}", fmt::join(node.origins, ", "));
  return text;
}

std::string to_text(const Graph& graph, const TextOptions& options) {
  std::string text = "entry " + quoted_if_needed(graph.name()) + "(";
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueInfo& input = graph.value(graph.inputs()[i]);
    text += (i ? ", " : "") + quoted_if_needed(input.name) + ": " + input.type.to_string();
  }
  text += ") {\n";
  for (const Node& node : graph.nodes()) text += "  " + node_text(graph, node, options) + "\n";
  for (const NamedValue& output : graph.outputs())
    text += "  return " + quoted_if_needed(output.name) + " = " + value_text(graph, output.value) + "\n";
  for (const StateUpdate& update : graph.updates())
    text += "  update @" + quoted_if_needed(graph.model().state(update.state).name) + " = " +
            value_text(graph, update.value) + "\n";
  return text + "}\n";
}

std::string to_text(const Model& model, const TextOptions& options) {
  std::string text;
  for (const auto& [key, value] : model.metadata)
    text += "metadata " + to_string(AttrValue(key)) + " = " + to_string(AttrValue(value)) + "\n";
  for (const State& state : model.states()) text += state_text(state, options);
  for (const NamedTensor& row : model.tensors())
    text += "tensor #" + quoted_if_needed(row.name) + ": " + row.tensor.type().to_string() + " = " +
            tensor_text(row.tensor, options) + "\n";
  for (const auto& entry : model.entries()) text += to_text(*entry, options);
  return text;
}

}  // namespace genesis
