#include "passes/grouping/passes.h"

#include <algorithm>
#include <unordered_map>

#include "passes/core/adam_updates.h"
#include "passes/core/match.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// Gradients of at most so many elements wait for a common launch though nothing else keeps them: launching takes longer than the work,
// and together they take little memory.
constexpr int64_t kSmall = 256 << 10;

struct Group {
  SharedByUpdates shared;
  DType parameter;
  std::vector<const Node*> members;  // in the graph's order
};

// Updates by SGD that differ in their parameters only.
struct SgdGroup {
  ops::SgdUpdate op;
  std::vector<ValueId> scalars;  // lr, step, [scale]
  DType parameter;
  std::vector<const Node*> members;  // in the graph's order
};

bool is_read(const Uses& uses, const Node& node) {
  for (const ValueId output : node.outputs)
    if (!uses.readers(output).empty()) return true;
  return false;
}

bool is_small(const Graph& graph, ValueId value) {
  const Shape& shape = graph.type(value).shape;
  return shape.is_constant() && shape.numel().value() <= kSmall;
}

// Returns whether a launch costs anything. Otherwise a group is free: it moves the bytes of its members, and its gradients wait
// for the common scale anyway.
bool pays(const Target& target, size_t members) { return seconds_saved_by_one_step_for(target, members) > 0; }

std::vector<Group> find_groups(const Graph& graph, const Target& target) {
  const Uses uses(graph);
  std::vector<Group> groups;
  for (const Node& node : graph.nodes()) {
    const auto op = match<ops::AdamUpdate>(node);
    if (!op || !op->is_single() || !op->has_scale || is_read(uses, node)) continue;
    const SharedByUpdates shared(node);
    const DType parameter = graph.type(parameter_of(node)).dtype;
    auto at = std::ranges::find_if(
        groups, [&](const Group& g) { return g.shared == shared && g.parameter == parameter; });
    if (at == groups.end()) at = groups.insert(groups.end(), Group{shared, parameter, {}});
    at->members.push_back(&node);
  }
  std::erase_if(groups, [&](const Group& group) { return !pays(target, group.members.size()); });
  return groups;
}

std::vector<ValueId> scalars_of(const ops::SgdUpdate& op, const Node& node) {
  std::vector<ValueId> scalars = {node.inputs[static_cast<size_t>(op.lr())],
                                  node.inputs[static_cast<size_t>(op.step())]};
  if (op.has_scale) scalars.push_back(node.inputs.back());
  return scalars;
}

std::vector<SgdGroup> find_sgd_groups(const Graph& graph, const Target& target) {
  const Uses uses(graph);
  std::vector<SgdGroup> groups;
  for (const Node& node : graph.nodes()) {
    const auto op = match<ops::SgdUpdate>(node);
    if (!op || op->parameters != 1 || is_read(uses, node)) continue;
    if (!op->has_scale && !is_small(graph, node.inputs[0])) continue;
    const SgdGroup one{op.attributes, scalars_of(op.attributes, node), graph.type(node.inputs[0]).dtype, {}};
    auto at = std::ranges::find_if(groups, [&](const SgdGroup& g) {
      return to_attributes(g.op) == to_attributes(one.op) && g.scalars == one.scalars &&
             g.parameter == one.parameter;
    });
    if (at == groups.end()) at = groups.insert(groups.end(), one);
    at->members.push_back(&node);
  }
  std::erase_if(groups, [&](const SgdGroup& group) {
    return group.members.size() < 2 || !pays(target, group.members.size());
  });
  return groups;
}

// Emits the group where its last member was: all gradients are computed by then.
void emit_group(Rewriter& rewriter, const Group& group) {
  ParameterHolders parameters;
  for (const Node* node : group.members) parameters.values.push_back(rewriter.map(parameter_of(*node)));
  rewriter.begin_nodes_from(group.members);
  const std::vector<Value> results = update_together(rewriter, group.shared, group.members, parameters);
  rewriter.end_nodes_from();
  const size_t n = group.members.size();
  for (size_t i = 0; i < n; ++i) rewriter.replace(*group.members[i], results_of_update(results, 0, n, i));
}

void emit_group(Rewriter& rewriter, const SgdGroup& group) {
  ops::SgdUpdate op = group.op;
  op.parameters = static_cast<int64_t>(group.members.size());
  std::vector<Value> inputs;
  const auto add = [&](int input) {
    for (const Node* member : group.members)
      inputs.push_back(rewriter.map(member->inputs[static_cast<size_t>(input)]));
  };
  add(0);
  add(group.op.gradient(0));
  for (size_t i = 0; i < 2; ++i) inputs.push_back(rewriter.map(group.scalars[i]));
  if (op.momentum != 0) add(group.op.buffer(0));
  if (op.has_scale) inputs.push_back(rewriter.map(group.scalars[2]));
  rewriter.begin_nodes_from(group.members);
  const std::vector<Value> results = emit_node(op, inputs);
  rewriter.end_nodes_from();
  const size_t n = group.members.size();
  for (size_t i = 0; i < n; ++i) {
    std::vector<Value> own = {results[i]};
    if (op.momentum != 0) own.push_back(results[n + i]);
    rewriter.replace(*group.members[i], own);
  }
}

// sum(concat(reshape(sum_squares(a)), reshape(sum_squares(b)), ...)): the small tensors are summed by one node. The others keep
// theirs, so that a large gradient need not stay in memory until the last one is computed.
class SquaresOfSmall {
 public:
  SquaresOfSmall(const Graph& graph, const Target* target) : graph_(graph), uses_(graph), target_(target) {}

  // Emits the sum, and returns true, if the node is one.
  bool emit(Rewriter& rewriter, const Node& node) const {
    const auto sum = match<ops::Sum>(node);
    if (!target_ || !sum || graph_.type(node.outputs[0]).shape.rank() > 0) return false;
    const auto joined = match_sole<ops::Concat>(graph_, uses_, sum.input(0));
    if (!joined || graph_.type(sum.input(0)).shape.rank() != 1) return false;
    std::vector<ValueId> rest, small;
    for (const ValueId part : joined.node->inputs)
      if (const auto tensor = small_tensor(part))
        small.push_back(*tensor);
      else
        rest.push_back(part);
    if (small.size() < 2 || !pays(*target_, small.size())) return false;
    rewriter.begin_nodes_from({joined.node, &node});
    const Value together = reshape(genesis::emit(ops::SumSquares{}, rewriter.map(small)), {1});
    std::vector<Value> parts = rewriter.map(rest);
    parts.push_back(together);
    const Value all = rewriter.graph().add_node(*node.op, node.attributes, {concat(parts, 0)})[0];
    rewriter.end_nodes_from();
    rewriter.replace(node, {all});
    return true;
  }

 private:
  // Returns the tensor if its sum of squares is read here only, and it is small.
  std::optional<ValueId> small_tensor(ValueId part) const {
    const auto row = match_sole<ops::Reshape>(graph_, uses_, part);
    const auto squares =
        row ? match_sole<ops::SumSquares>(graph_, uses_, row.input(0)) : Matched<ops::SumSquares>();
    if (!squares || squares.num_inputs() != 1 || graph_.type(row.input(0)).dtype != DType::f32) return {};
    return is_small(graph_, squares.input(0)) ? std::optional(squares.input(0)) : std::nullopt;
  }

  const Graph& graph_;
  const Uses uses_;
  const Target* target_;
};

template <class G>
void note_members(const std::vector<G>& groups, std::unordered_map<const Node*, const G*>& group_of) {
  for (const G& group : groups)
    for (const Node* member : group.members) group_of[member] = &group;
}

// Emits the node's group where its last member was; returns false if it has none.
template <class G>
bool emit_member(Rewriter& rewriter, const std::unordered_map<const Node*, const G*>& group_of,
                 const Node& node) {
  const auto group = group_of.find(&node);
  if (group == group_of.end()) return false;
  if (group->second->members.back() == &node) emit_group(rewriter, *group->second);
  return true;
}

}  // namespace

Graph group_updates(const Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  std::vector<Group> groups;
  std::vector<SgdGroup> sgd_groups;
  if (context.target) {
    groups = find_groups(graph, *context.target);
    sgd_groups = find_sgd_groups(graph, *context.target);
  }
  std::unordered_map<const Node*, const Group*> group_of;
  std::unordered_map<const Node*, const SgdGroup*> sgd_group_of;
  note_members(groups, group_of);
  note_members(sgd_groups, sgd_group_of);
  const SquaresOfSmall squares(graph, context.target);
  for (const Node& node : graph.nodes())
    if (!emit_member(rewriter, group_of, node) && !emit_member(rewriter, sgd_group_of, node) &&
        !squares.emit(rewriter, node))
      rewriter.copy(node);
  return without_dead_nodes(rewriter.finish());
}

}  // namespace genesis::passes
