#include "passes/core/adam_updates.h"

#include "passes/core/match.h"

namespace genesis::passes {
namespace {

ops::AdamUpdate op_of(const Node& update) { return from_attributes<ops::AdamUpdate>(update.attributes); }

std::vector<Value> emit_update(const SharedByUpdates& shared, const std::vector<const Node*>& updates,
                               std::vector<Value> scalars, const ParameterHolders& holders,
                               const UpdateOperands& operands) {
  ops::AdamUpdate op = shared.op;
  op.parameters_per_half = holders.held;
  for (const Node* update : updates) op.weight_decays.push_back(op_of(*update).weight_decays[0]);
  std::vector<Value> inputs = std::move(scalars);
  const auto add = [&](const std::vector<Value>& values) {
    inputs.insert(inputs.end(), values.begin(), values.end());
  };
  add(holders.values);
  add(operands.gradients);
  for (const std::vector<Value>& moments : operands.moments) add(moments);
  return emit_node(op, inputs);
}

}  // namespace

SharedByUpdates::SharedByUpdates(const Node& update) : op(op_of(update)) {
  scalars.assign(update.inputs.begin(), update.inputs.begin() + op.holder(0));
  op.weight_decays.clear();
}

ValueId parameter_of(const Node& update) {
  return update.inputs[static_cast<size_t>(op_of(update).holder(0))];
}

// Maps the operands in the order of the node's inputs, because states get their numbers in the new graph in this order.
std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const ParameterHolders& holders) {
  const auto mapped = [&](size_t behind) {  // offset from the parameter among the node's inputs
    std::vector<Value> values;
    for (const Node* update : updates)
      values.push_back(rewriter.map(update->inputs[shared.scalars.size() + behind]));
    return values;
  };
  std::vector<Value> scalars = rewriter.map(shared.scalars);
  UpdateOperands operands{mapped(1), {}};
  const size_t behind = updates[0]->inputs.size() - shared.scalars.size();
  for (size_t moment = 2; moment < behind; ++moment) operands.moments.push_back(mapped(moment));
  return emit_update(shared, updates, std::move(scalars), holders, operands);
}

std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const ParameterHolders& holders,
                                   const UpdateOperands& operands) {
  return emit_update(shared, updates, rewriter.map(shared.scalars), holders, operands);
}

std::vector<Value> results_of_update(const std::vector<Value>& results, size_t first, size_t updates,
                                     size_t k) {
  std::vector<Value> values;
  for (size_t at = first + k; at < results.size(); at += updates) values.push_back(results[at]);
  return values;
}

}  // namespace genesis::passes
