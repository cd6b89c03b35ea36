#include "passes/simplify/passes.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "passes/core/rewriter.h"
#include "schema/ops/collective/point_to_point.h"

namespace genesis::passes {
namespace {

// Finds the nodes of a graph that compute what an earlier one does.
class Duplicates {
 public:
  explicit Duplicates(const Graph& graph)
      : graph_(graph), first_node_(graph.nodes().size()), first_value_(graph.values().size()) {
    std::iota(first_node_.begin(), first_node_.end(), 0);
    std::iota(first_value_.begin(), first_value_.end(), 0);
    for (size_t i = 0; i < first_node_.size(); ++i)
      if (!has_peer(*graph.nodes()[i].op)) find_first(i);  // each recv gets another tensor
  }

  bool has_some() const { return has_some_; }
  // Returns the first node with the same values: the node itself if no earlier one has them.
  const Node& first(size_t node) const { return graph_.nodes()[first_node_[node]]; }

 private:
  // Nodes with equal keys and equal attributes compute equal values.
  std::string key_of(const Node& node) const {
    std::vector<int32_t> ids;
    for (const ValueId input : node.inputs) ids.push_back(first_value_[static_cast<size_t>(input.index)]);
    if (node.op->info.commutative) std::sort(ids.begin(), ids.begin() + 2);
    std::string key(node.op->name());
    for (const int32_t id : ids) key += "," + std::to_string(id);
    if (ids.empty()) key += node.attributes.to_string();  // a model may have thousands of different constants
    return key;
  }

  void find_first(size_t index) {
    const Node& node = graph_.nodes()[index];
    std::vector<size_t>& alike = nodes_[key_of(node)];
    const auto is_equal = [&](size_t other) { return graph_.nodes()[other].attributes == node.attributes; };
    const auto at = std::ranges::find_if(alike, is_equal);
    if (at == alike.end()) return alike.push_back(index);
    has_some_ = true;
    first_node_[index] = *at;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      first_value_[static_cast<size_t>(node.outputs[i].index)] = graph_.nodes()[*at].outputs[i].index;
  }

  const Graph& graph_;
  std::vector<size_t> first_node_;
  std::vector<int32_t> first_value_;
  std::unordered_map<std::string, std::vector<size_t>> nodes_;  // by key
  bool has_some_ = false;
};

}  // namespace

Graph eliminate_common_subexpressions(const Graph& graph, const PassContext&) {
  const Duplicates duplicates(graph);
  if (!duplicates.has_some()) return graph.share();
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node &node = graph.nodes()[i], &first = duplicates.first(i);
    if (&node == &first)
      rewriter.copy(node);
    else
      rewriter.replace(node, rewriter.map(first.outputs));
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
