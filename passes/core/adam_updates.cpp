#include "passes/core/adam_updates.h"

#include "passes/core/match.h"

namespace genesis::passes {
namespace {

ops::AdamUpdate op_of(const Node& update) { return from_attributes<ops::AdamUpdate>(update.attributes); }

}  // namespace

SharedByUpdates::SharedByUpdates(const Node& update) : op(op_of(update)) {
  scalars.assign(update.inputs.begin(), update.inputs.begin() + op.holder(0));
  op.weight_decays.clear();
}

ValueId parameter_of(const Node& update) {
  return update.inputs[static_cast<size_t>(op_of(update).holder(0))];
}

std::vector<Value> update_together(Rewriter& rewriter, const SharedByUpdates& shared,
                                   const std::vector<const Node*>& updates, const std::vector<Value>& holders,
                                   const std::vector<int64_t>& parameters_per_half) {
  ops::AdamUpdate op = shared.op;
  op.parameters_per_half = parameters_per_half;
  std::vector<Value> inputs = rewriter.map(shared.scalars);
  inputs.insert(inputs.end(), holders.begin(), holders.end());
  for (const Node* update : updates) op.weight_decays.push_back(op_of(*update).weight_decays[0]);
  for (const size_t behind : {1, 2, 3})  // the parameter: its gradient, m, v
    for (const Node* update : updates)
      inputs.push_back(rewriter.map(update->inputs[shared.scalars.size() + behind]));
  return emit_node(op, inputs);
}

}  // namespace genesis::passes
