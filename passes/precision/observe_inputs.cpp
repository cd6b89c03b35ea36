#include "passes/precision/observe_inputs.h"

#include <algorithm>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/precision/product_weights.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {
namespace {

// Returns whether the node multiplies its first input itself with its weights.
bool multiplies_first_input(const Node& node) {
  if (const auto layer = match<ops::Linear>(node)) return !layer->has_norm();
  const auto product = match<ops::Matmul>(node);
  return product && !product->transpose_a;
}

}  // namespace

std::vector<ObservedInput> observed_inputs(const Graph& entry, const std::set<int32_t>& states) {
  std::vector<ObservedInput> inputs;
  std::set<int32_t> left = states;
  for (const Node& node : entry.nodes())
    for (const ValueId weight : weights_of(node)) {
      const int32_t state = state_behind(entry, weight);
      if (!left.contains(state) || !multiplies_first_input(node)) continue;
      const Shape& shape = entry.type(weight).shape;
      if (shape.rank() != 2 || entry.type(node.inputs[0]).shape.rank() < 2) continue;
      left.erase(state);
      auto at = std::ranges::find(inputs, node.inputs[0], &ObservedInput::x);
      if (at == inputs.end())
        at = inputs.insert(at, {.x = node.inputs[0], .width = shape[1].value(), .weights = {}});
      at->weights.push_back(state);
    }
  return inputs;
}

Graph observe(const Graph& entry, std::span<const ObservedInput> inputs) {
  Rewriter rewriter(entry);
  for (const Node& node : entry.nodes()) rewriter.copy(node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value x = rewriter.map(inputs[i].x);
    const bool wide = is_low_precision(entry.type(inputs[i].x).dtype);
    const Value gram = matmul(ops::Matmul{.transpose_a = true, .wide = wide}, {x, x})[0];
    rewriter.graph().add_output("gram_" + std::to_string(i), gram);
  }
  return without_dead_nodes(rewriter.graph());
}

}  // namespace genesis::passes
