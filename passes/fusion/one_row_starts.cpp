#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/quantized_cache.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// Returns the operands that may be one number or one for each row.
std::vector<size_t> numbers_of_rows(const Node& node) {
  if (is<ops::CachedAttention, ops::QuantizedAttention>(node)) return {5};
  if (is<ops::DynamicUpdateSlice>(node))
    return node.inputs.size() > 3 ? std::vector<size_t>{2, 3} : std::vector<size_t>{2};
  if (const auto attention = match<ops::Attention>(node); attention && attention->has_key_length)
    return {node.inputs.size() - 1};
  return {};
}

Replacement as_scalars(Rewriter& rewriter, const Node& node) {
  std::vector<Value> inputs = rewriter.map(node.inputs);
  bool changed = false;
  for (const size_t i : numbers_of_rows(node)) {
    if (!(inputs[i].shape() == Shape{1})) continue;
    inputs[i] = reshape(inputs[i], {});
    changed = true;
  }
  if (!changed) return std::nullopt;
  return emit_node(*node.op, node.attributes, inputs);
}

}  // namespace

Graph one_row_starts(const Graph& graph, const PassContext&) { return rewrite(graph, as_scalars); }

}  // namespace genesis::passes
