#include "passes/fusion/passes.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "passes/core/match.h"
#include "passes/core/native.h"
#include "passes/core/rewriter.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::passes {
namespace {

// Returns whether the sum takes long enough to matter: a short one runs beside other steps.
bool is_seen(const TensorType& dy, const Target& target) {
  return !dy.shape.is_constant() || seconds_to_move(target, dy.bytes()) > target.hidden_seconds;
}

// Matches dy^T x for two matrices.
bool is_weight_gradient(const Graph& graph, const Node& node, const Target& target) {
  const auto product = match<ops::Matmul>(node);
  return product && product->is_plain() && node.inputs.size() == 2 && product->transpose_a &&
         !product->transpose_b && graph.type(node.outputs[0]).shape.rank() == 2 &&
         is_float(graph.type(node.outputs[0]).dtype) && is_seen(graph.type(node.inputs[0]), target);
}

// Matches the sum of dy's rows in dy's dtype.
bool is_bias_gradient(const Graph& graph, const Node& node) {
  const auto sum = match<ops::Sum>(node);
  return sum && graph.type(node.inputs[0]).shape.rank() == 2 &&
         normalize_axes(sum->axes, 2) == std::vector<int>{0} && !sum->keep_dims;
}

// Returns a bias gradient that can be computed with the product, because all its readers come later; null if there is none.
const Node* bias_gradient_of(const Graph& graph, const Uses& uses, const Node& product) {
  for (NodeId id : uses.readers(product.inputs[0])) {
    const Node& node = graph.node(id);
    if (!is_bias_gradient(graph, node)) continue;
    const auto& readers = uses.readers(node.outputs[0]);
    const NodeId place = id_of(graph, product);
    if (std::ranges::all_of(readers, [&](NodeId reader) { return place < reader; })) return &node;
  }
  return nullptr;
}

Attributes with_bias_grad() {
  return to_attributes(ops::Matmul{.transpose_a = true, .epilogue = ops::MatmulEpilogue::kBiasGrad});
}

// Returns the sums by product.
std::map<const Node*, const Node*> find_pairs(const Graph& graph, const PassContext& context) {
  std::map<const Node*, const Node*> pairs;
  if (!context.target) return pairs;
  const Uses uses(graph);
  std::unordered_set<const Node*> taken;
  for (const Node& node : graph.nodes()) {
    if (!is_weight_gradient(graph, node, *context.target) || uses.count(node.outputs[0]) == 0) continue;
    const Node* sum = bias_gradient_of(graph, uses, node);
    if (!sum || taken.contains(sum)) continue;
    if (!runs_natively(context, *node.op, with_bias_grad(), graph.input_types(node))) continue;
    pairs[&node] = sum;
    taken.insert(sum);
  }
  return pairs;
}

}  // namespace

Graph fuse_bias_gradient(const Graph& graph, const PassContext& context) {
  const auto pairs = find_pairs(graph, context);
  std::map<const Node*, const Node*> products;  // by sum
  for (const auto& [product, sum] : pairs) products[sum] = product;
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (products.contains(&node)) continue;
    const auto pair = pairs.find(&node);
    if (pair == pairs.end()) {
      rewriter.copy(node);
      continue;
    }
    rewriter.begin_nodes_from({&node, pair->second});
    const std::vector<Value> gradients = emit_node(*node.op, with_bias_grad(), rewriter.map(node.inputs));
    rewriter.end_nodes_from();
    rewriter.replace(node, {gradients[0]});
    rewriter.replace(*pair->second, {gradients[1]});
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
