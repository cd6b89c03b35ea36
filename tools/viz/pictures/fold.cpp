#include "tools/viz/pictures/fold.h"

#include <algorithm>
#include <string_view>

namespace genesis::viz {
namespace {

// Fewer nodes may have different purposes within a layer, such as two sums of a residual stream.
constexpr size_t kManyNumbered = 8;

bool is_number(std::string_view part) {
  return !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

// Returns the first part of a name that is a number. The very first part is not considered.
std::string_view layer_number(std::string_view name) {
  for (size_t start = name.find('.') + 1; start != 0; start = name.find('.', start) + 1) {
    const std::string_view part = name.substr(start, name.find('.', start) - start);
    if (is_number(part)) return part;
  }
  return {};
}

std::string without_layer(const std::string& name) {
  const std::string_view number = layer_number(name);
  if (number.empty()) return name;
  const auto start = static_cast<size_t>(number.data() - name.data());
  return name.substr(0, start) + "*" + name.substr(start + number.size());
}

// Returns "optimizer.add" for "optimizer.add_12".
std::string stem_of(const std::string& name) {
  const size_t mark = name.rfind('_');
  return mark != std::string::npos && is_number(std::string_view(name).substr(mark + 1))
             ? name.substr(0, mark)
             : name;
}

std::string likeness(const Node& node) {
  return stem_of(without_layer(node.name)) + " " + std::string(node.op->name()) + node.attributes.to_string();
}

}  // namespace

Folding::Folding(bool on, const std::vector<const Graph*>& graphs) : on_(on) {
  for (const Graph* graph : graphs)
    for (const Node& node : graph->nodes()) numbered_[likeness(node)].insert(without_layer(node.name));
  for (const Graph* graph : graphs)
    for (const Node& node : graph->nodes()) add(node);
}

void Folding::add(const Node& node) {
  if (boxes_.contains(node.name)) return;
  if (!on_) {
    boxes_.emplace(node.name, node.name);
    return;
  }
  std::string name = without_layer(node.name), alike = std::string(node.op->name());
  if (numbered_.at(likeness(node)).size() >= kManyNumbered) {
    name = stem_of(name) + "_*";
    alike = likeness(node);
  }
  std::vector<std::string>& variants = variants_[name];
  const auto at = std::ranges::find(variants, alike);
  const auto index = at - variants.begin();
  if (at == variants.end()) variants.push_back(alike);
  boxes_.emplace(node.name, index == 0 ? name : name + " (" + std::to_string(index + 1) + ")");
}

std::string Folding::layer_of(const Node& node) const {
  const std::string_view number = on_ ? layer_number(node.name) : std::string_view();
  if (number.empty()) return "";
  return node.name.substr(0, static_cast<size_t>(number.data() - node.name.data()) + number.size());
}

}  // namespace genesis::viz
