#include "passes/grouping/merge_linear.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis::passes {
namespace {

// Layers further apart than this stand in different blocks of a model: keys and values that every decoder
// block makes from one encoder's output would all have to live from the first block on.
constexpr int32_t kNear = 16;  // nodes between one layer and the next

bool has_few_rows(const TensorType& x, const PassContext& context) {
  if (!context.target || !x.shape.is_constant() || x.shape.rank() == 0) return false;
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) rows *= x.shape[i].value();
  return rows <= context.target->merge_linear_rows;
}

bool is_small_linear(const Graph& graph, const Node& node, const PassContext& context) {
  const auto layer = match<ops::Linear>(node);
  return layer && !layer->has_addend && has_few_rows(graph.type(node.inputs[0]), context);
}

Activation activation_of(const Node& node) {
  return from_attributes<ops::Linear>(node.attributes).activation;
}

Value bias_of(Rewriter& rewriter, const Node& node) {
  return node.inputs.size() > 2 ? rewriter.map(node.inputs[2]) : Value{};
}

Replacement into_swiglu(Rewriter& rewriter, const Uses& uses, const Node& node, const PassContext& context) {
  if (!is<ops::Swiglu>(node) || node.inputs.size() != 2) return std::nullopt;
  const Graph& graph = rewriter.old();
  const auto gate = match_sole<ops::Linear>(graph, uses, node.inputs[0]),
             up = match_sole<ops::Linear>(graph, uses, node.inputs[1]);
  if (!gate || !up || gate.input(0) != up.input(0) || gate.num_inputs() != up.num_inputs())
    return std::nullopt;
  if (!is_small_linear(graph, *gate.node, context) || !is_small_linear(graph, *up.node, context))
    return std::nullopt;
  if (gate->activation != Activation::kNone || up->activation != Activation::kNone) return std::nullopt;
  rewriter.from_nodes({gate.node, up.node, &node});
  return {{linear_swiglu(rewriter.map(gate.input(0)), rewriter.map(gate.input(1)), rewriter.map(up.input(1)),
                         bias_of(rewriter, *gate.node), bias_of(rewriter, *up.node))}};
}

using Group = std::vector<const Node*>;

// What layers of one group share.
struct Kind {
  ValueId x;
  bool has_bias;
  Activation activation;
  auto operator<=>(const Kind&) const = default;
};

// Whether what `node` reads is there when `first` runs.
bool is_ready_at(const Graph& graph, const Node& node, const Node& first) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    const Node* maker = producer(graph, input);
    return !maker || id_of(graph, *maker) < id_of(graph, first);
  });
}

bool can_run(const Graph& graph, const Group& group, const PassContext& context) {
  if (!context.target->can_run) return true;
  const Node& first = *group[0];
  const bool has_bias = first.inputs.size() > 2;
  std::vector<TensorType> inputs = {graph.type(first.inputs[0])}, outputs;
  for (size_t i = 1; i < first.inputs.size(); ++i)
    for (const Node* node : group) inputs.push_back(graph.type(node->inputs[i]));
  for (const Node* node : group) outputs.push_back(graph.type(node->outputs[0]));
  const Attributes attributes = to_attributes(ops::MergedLinear{has_bias, activation_of(first)});
  return !context.target->can_run(
      {op_def<ops::MergedLinear>(), attributes, inputs, outputs, &context.target->disabled_kernels});
}

// By first node, the groups of two and more in the order of the graph.
std::vector<Group> groups_of(const Graph& graph, const PassContext& context) {
  const std::vector<bool> live = live_nodes(graph);
  std::vector<Group> groups;
  std::map<Kind, size_t> open;  // the last group of each kind
  for (size_t i = 0; i < live.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!live[i] || !is_small_linear(graph, node, context)) continue;
    const Kind kind{node.inputs[0], node.inputs.size() > 2, activation_of(node)};
    const auto at = open.find(kind);
    if (at != open.end()) {
      Group& group = groups[at->second];
      const bool near = static_cast<int32_t>(i) - id_of(graph, *group.back()).index <= kNear;
      if (near && is_ready_at(graph, node, *group.front())) {
        group.push_back(&node);
        continue;
      }
    }
    open[kind] = groups.size();
    groups.push_back({&node});
  }
  std::erase_if(groups,
                [&](const Group& group) { return group.size() < 2 || !can_run(graph, group, context); });
  return groups;
}

std::vector<Value> merge(Rewriter& rewriter, const Group& group) {
  rewriter.from_nodes(group);
  std::vector<Value> weights, biases;
  for (const Node* node : group) {
    weights.push_back(rewriter.map(node->inputs[1]));
    if (const Value bias = bias_of(rewriter, *node)) biases.push_back(bias);
  }
  return merged_linear(rewriter.map(group[0]->inputs[0]), weights, biases, activation_of(*group[0]));
}

Graph merge_groups(const Graph& graph, const PassContext& context) {
  const std::vector<Group> groups = groups_of(graph, context);
  std::map<const Node*, Value> merged;  // by layer, once the first of its group was met
  size_t next = 0;
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (next < groups.size() && groups[next].front() == &node) {
      const std::vector<Value> values = merge(rewriter, groups[next]);
      for (size_t i = 0; i < values.size(); ++i) merged[groups[next][i]] = values[i];
      ++next;
    }
    const auto at = merged.find(&node);
    return at == merged.end() ? Replacement{} : Replacement{{at->second}};
  });
}

}  // namespace

Graph merge_linear(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  const Graph with_swiglu = rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return into_swiglu(rewriter, uses, node, context); },
      context.target);
  return merge_groups(with_swiglu, context);
}

}  // namespace genesis::passes
