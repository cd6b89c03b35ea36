#include "passes/grouping/passes.h"

#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/native.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis::passes {
namespace {

// Layers further apart than this are in different blocks of a model. Merging the keys and values that every decoder block
// computes from one encoder's output would keep all of them alive from the first block on.
constexpr int32_t kNear = 16;  // nodes between one layer and the next

bool may_merge(const Node& node) {
  const auto layer = match<ops::Linear>(node);
  return layer && layer->is_plain() && !layer->has_addend;
}

Activation activation_of(const Node& node) {
  return from_attributes<ops::Linear>(node.attributes).activation;
}

WeightFormat format_of(const Graph& graph, const Node& node) {
  const auto weight = match<ops::Dequantize>(graph, node.inputs[1]);
  return weight ? weight->format : WeightFormat::kPlain;
}

using Group = std::vector<const Node*>;

// Returns x, the weights of all layers and their biases.
LinearOperands operands_of(Rewriter& rewriter, const Group& group) {
  LinearOperands operands{.x = rewriter.map(group[0]->inputs[0]), .weights = {}};
  for (const Node* node : group) {
    operands.weights.push_back(rewriter.map(node->inputs[1]));
    if (node->inputs.size() > 2) operands.biases.push_back(rewriter.map(node->inputs[2]));
  }
  return operands;
}

bool runs_as_one(const Graph& graph, const ops::Linear& op, const Group& group, const PassContext& context) {
  std::vector<TensorType> inputs = {graph.type(group[0]->inputs[0])};
  for (size_t i = 1; i < group[0]->inputs.size(); ++i)
    for (const Node* node : group) inputs.push_back(graph.type(node->inputs[i]));
  return runs_natively(context, *group[0]->op, to_attributes(op), inputs);
}

Replacement into_swiglu(Rewriter& rewriter, const Uses& uses, const Node& node, const PassContext& context) {
  if (!is<ops::Swiglu>(node) || node.inputs.size() != 2) return std::nullopt;
  const Graph& graph = rewriter.old();
  const auto gate = match_sole<ops::Linear>(graph, uses, node.inputs[0]),
             up = match_sole<ops::Linear>(graph, uses, node.inputs[1]);
  if (!gate || !up || gate.input(0) != up.input(0) || gate.num_inputs() != up.num_inputs())
    return std::nullopt;
  if (!may_merge(*gate.node) || !may_merge(*up.node)) return std::nullopt;
  if (gate->activation != Activation::kNone || up->activation != Activation::kNone) return std::nullopt;
  if (format_of(graph, *gate.node) != format_of(graph, *up.node)) return std::nullopt;
  const ops::Linear op{.weights = 2, .epilogue = ops::LinearEpilogue::kSwiglu};
  if (!runs_as_one(graph, op, {gate.node, up.node}, context)) return std::nullopt;
  rewriter.from_nodes({gate.node, up.node, &node});
  return linear(op, operands_of(rewriter, {gate.node, up.node}));
}

// Describes what layers of one group have in common.
struct Kind {
  ValueId x;
  bool has_bias;
  Activation activation;
  WeightFormat format;  // format of quantized weights: no kernel reads different formats
  auto operator<=>(const Kind&) const = default;
};

// Returns whether the inputs of `node` are computed before `first` runs.
bool is_ready_at(const Graph& graph, const Node& node, const Node& first) {
  return std::ranges::all_of(node.inputs, [&](ValueId input) {
    const Node* maker = producer(graph, input);
    return !maker || id_of(graph, *maker) < id_of(graph, first);
  });
}

ops::Linear merged_op(const Group& group) {
  return {.activation = activation_of(*group[0]), .weights = static_cast<int64_t>(group.size())};
}

// Returns the groups of two or more layers, in the order of their first nodes in the graph.
std::vector<Group> groups_of(const Graph& graph, const PassContext& context) {
  const std::vector<bool> live = live_nodes(graph);
  std::vector<Group> groups;
  std::map<Kind, size_t> open;  // the last group of each kind
  for (size_t i = 0; i < live.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!live[i] || !may_merge(node)) continue;
    const Kind kind{node.inputs[0], node.inputs.size() > 2, activation_of(node), format_of(graph, node)};
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
  std::erase_if(groups, [&](const Group& group) {
    return group.size() < 2 || !runs_as_one(graph, merged_op(group), group, context);
  });
  return groups;
}

std::vector<Value> merge(Rewriter& rewriter, const Group& group) {
  rewriter.from_nodes(group);
  return linear(merged_op(group), operands_of(rewriter, group));
}

Graph merge_groups(const Graph& graph, const PassContext& context) {
  const std::vector<Group> groups = groups_of(graph, context);
  std::map<const Node*, Value> merged;  // by layer, filled at the first layer of its group
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
  if (!context.target) return graph.share();
  const Uses uses(graph);
  const Graph with_swiglu = rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return into_swiglu(rewriter, uses, node, context); },
      context.target);
  return merge_groups(with_swiglu, context);
}

}  // namespace genesis::passes
