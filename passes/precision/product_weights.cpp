#include "passes/precision/product_weights.h"

#include "passes/core/analysis.h"
#include "passes/core/match.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {

std::vector<ValueId> weights_of(const Node& node) {
  if (const auto layer = match<ops::Linear>(node); layer && !layer->is_quantized()) {
    const auto first = node.inputs.begin() + static_cast<std::ptrdiff_t>(layer->first_weight());
    return {first, first + static_cast<std::ptrdiff_t>(layer->weights)};
  }
  if (const auto product = match<ops::Matmul>(node); product && product->transpose_b) return {node.inputs[1]};
  if (const auto groups = match<ops::GroupedMatmul>(node);
      groups && groups->transpose_weights && !groups->is_quantized())
    return {node.inputs[1]};
  if (is<ops::LinearCrossEntropy>(node)) return {node.inputs[1]};
  return {};
}

int32_t state_behind(const Graph& graph, ValueId id) {
  const auto cast = match<ops::Cast>(graph, id);
  return state_of(graph, cast ? cast.input(0) : id);
}

}  // namespace genesis::passes
