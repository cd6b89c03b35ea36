#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/batch_norm.h"

namespace genesis::passes {
namespace {

// A batch norm without epilogue, what is added to it, and the relu behind.
struct Summed {
  const Node* norm = nullptr;
  const Node* sum = nullptr;  // null: nothing is added
  ValueId addend = {};
};

const Node* plain_norm(const Graph& graph, const Uses& uses, ValueId value) {
  const auto norm = match_sole<ops::BatchNorm>(graph, uses, value);
  return norm && !norm->relu && !norm->has_addend ? norm.node : nullptr;
}

// Returns true if the value depends on the node.
bool follows(const Graph& graph, ValueId value, const Node& node) {
  const Node* maker = producer(graph, value);
  return maker && needed_by(graph, {id_of(graph, *maker)})[static_cast<size_t>(id_of(graph, node).index)];
}

std::optional<Summed> find(const Graph& graph, const Uses& uses, const Node& relu) {
  const ValueId value = relu.inputs[0];
  if (const Node* norm = plain_norm(graph, uses, value)) return Summed{norm};
  const auto sum = match_sole<ops::Add>(graph, uses, value);
  if (!sum) return std::nullopt;
  for (const auto& [from, addend] : either_way(*sum.node))
    if (const Node* norm = plain_norm(graph, uses, from))
      if (graph.type(addend) == graph.type(norm->inputs[0]) && !follows(graph, addend, *norm))
        return Summed{norm, sum.node, addend};
  return std::nullopt;
}

// Writes nodes as soon as what they read is written. A fused norm takes the place of its relu, so readers of its statistics, which
// stood before, come behind.
class Fuser {
 public:
  explicit Fuser(const Graph& graph) : graph_(graph), rewriter_(graph) {
    const Uses uses(graph);
    for (const Node& node : graph.nodes())
      if (is<ops::Relu>(node))
        if (const auto found = find(graph, uses, node)) {
          fused_[&node] = *found;
          absorbed_.insert(found->norm);
          absorbed_.insert(found->sum);
        }
  }

  Graph run() {
    std::vector<const Node*> waiting;
    for (const Node& node : graph_.nodes())
      if (!absorbed_.contains(&node)) waiting.push_back(&node);
    while (!waiting.empty()) {
      std::vector<const Node*> later;
      for (const Node* node : waiting)
        if (!write(*node)) later.push_back(node);
      if (later.size() == waiting.size()) return graph_.share();
      waiting = std::move(later);
    }
    return without_dead_nodes(rewriter_.finish());
  }

 private:
  bool is_written(ValueId value) const {
    const Node* maker = producer(graph_, value);
    return !maker || written_.contains(maker);
  }
  bool are_written(const std::vector<ValueId>& values) const {
    return std::ranges::all_of(values, [&](ValueId value) { return is_written(value); });
  }

  // Returns false if the node reads what is not written yet.
  bool write(const Node& node) {
    const auto fused = fused_.find(&node);
    if (fused != fused_.end()) return write_fused(fused->second, node);
    if (!are_written(node.inputs)) return false;
    rewriter_.copy(node);
    written_.insert(&node);
    return true;
  }

  bool write_fused(const Summed& found, const Node& relu) {
    const Node& norm = *found.norm;
    if (!are_written(norm.inputs) || (found.sum && !is_written(found.addend))) return false;
    rewriter_.begin_nodes_from(found.sum ? std::vector{&norm, found.sum, &relu} : std::vector{&norm, &relu});
    auto op = from_attributes<ops::BatchNorm>(norm.attributes);
    op.relu = true, op.has_addend = found.sum != nullptr;
    std::vector<Value> inputs = rewriter_.map(norm.inputs);
    if (op.has_addend) inputs.push_back(rewriter_.map(found.addend));
    const auto made = emit_node(op, inputs);
    rewriter_.end_nodes_from();
    rewriter_.replace(relu, {made[0]});
    for (const size_t statistic : {1, 2}) rewriter_.replace(norm.outputs[statistic], made[statistic]);
    written_.insert({&norm, &relu});
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<const Node*, Summed> fused_;  // by relu
  std::set<const Node*> absorbed_, written_;
};

}  // namespace

Graph fuse_batch_norm(const Graph& graph, const PassContext&) { return Fuser(graph).run(); }

}  // namespace genesis::passes
