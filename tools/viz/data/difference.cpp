#include "tools/viz/data/difference.h"

#include <algorithm>
#include <set>

namespace genesis::viz {
namespace {

using Facts = std::map<std::string, std::string>;  // description of a node by fact name
using Table = std::map<std::string, Facts>;        // by node name

// Returns the facts about a node that the picture does not show as lines. Inputs from other nodes are lines; states
// and constants are not, so they are included here.
Facts facts_of(const Graph& graph, const Node& node) {
  Facts facts{{"op", std::string(node.op->name())}};
  for (const auto& [name, value] : node.attributes) facts["attribute " + name] = to_string(value);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    facts["type " + std::to_string(i)] = graph.type(node.outputs[i]).to_string();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueInfo& input = graph.value(node.inputs[i]);
    const bool is_hidden = input.kind == ValueKind::kState || input.kind == ValueKind::kConstant;
    if (is_hidden) facts["input " + std::to_string(i)] = input.name + " " + input.type.to_string();
  }
  return facts;
}

Table node_table(const Graph& graph) {
  Table table;
  for (const Node& node : graph.nodes()) table[node.name] = facts_of(graph, node);
  return table;
}

Table input_table(const Graph& graph) {
  Table table;
  for (ValueId id : graph.inputs()) table[graph.value(id).name]["type"] = graph.type(id).to_string();
  return table;
}

Table output_table(const Graph& graph) {
  Table table;
  for (const NamedValue& output : graph.outputs())
    table[output.name]["type"] = graph.type(output.value).to_string();
  return table;
}

std::string shortened(const std::string& text) {
  constexpr size_t kMax = 60;
  if (text.size() <= kMax) return text;
  size_t end = kMax;  // moved back to the start of a character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string fact(const Facts& facts, const std::string& name) {
  const auto at = facts.find(name);
  return at == facts.end() ? "nothing" : shortened(at->second);
}

NodeChange compare(const Facts& before, const Facts& after) {
  NodeChange result;
  std::set<std::string> names;
  for (const auto& [name, value] : before) names.insert(name);
  for (const auto& [name, value] : after) names.insert(name);
  for (const std::string& name : names) {
    const auto a = before.find(name), b = after.find(name);
    if (a != before.end() && b != after.end() && a->second == b->second) continue;
    result.change = Change::kChanged;
    // A changed op has other attributes anyway.
    if (fact(before, "op") != fact(after, "op") && name.starts_with("attribute ")) continue;
    result.what.push_back(name + ": " + fact(before, name) + " -> " + fact(after, name));
  }
  return result;
}

std::map<std::string, NodeChange> compare(const Table& before, const Table& after) {
  std::map<std::string, NodeChange> changes;
  for (const auto& [name, facts] : before) {
    const auto other = after.find(name);
    changes[name] = other == after.end() ? NodeChange{Change::kGone, {}} : compare(facts, other->second);
  }
  for (const auto& [name, facts] : after)
    if (!before.contains(name)) changes[name] = {Change::kAdded, {}};
  return changes;
}

}  // namespace

Difference::Difference(const Graph& before, const Graph& after)
    : nodes_(compare(node_table(before), node_table(after))),
      inputs_(compare(input_table(before), input_table(after))),
      outputs_(compare(output_table(before), output_table(after))) {}

size_t Difference::count(Change change) const {
  return static_cast<size_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [change](const auto& node) { return node.second.change == change; }));
}

}  // namespace genesis::viz
