#include <algorithm>
#include <set>

#include "passes/core/addend.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/precision/passes.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"

namespace genesis::passes {
namespace {

// Operands may be broadcast: whether the position embedding is depends on the number of rows, and the bits must not.
bool is_sum_of_16_bits(const Graph& graph, const Node& node) {
  const DType sum = graph.type(node.outputs[0]).dtype;
  return is<ops::Add>(node) && is_low_precision(sum) && graph.type(node.inputs[0]).dtype == sum &&
         graph.type(node.inputs[1]).dtype == sum;
}

// Returns whether the node reads `value` as the tensor that it normalizes, and nowhere else.
bool normalizes(const Node& node, ValueId value) {
  return is<ops::RmsNorm, ops::LayerNorm>(node) && node.inputs[0] == value &&
         std::count(node.inputs.begin(), node.inputs.end(), value) == 1;
}

class Widening {
 public:
  explicit Widening(const Graph& graph) : graph_(graph), uses_(graph) {
    // Readers come after the sums they read, so one walk from the end knows of every reader whether it is widened.
    for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node)
      if (is_sum_of_16_bits(graph, *node) && may_widen(node->outputs[0])) sums_.insert(node->outputs[0]);
  }

  bool changes() const { return !sums_.empty(); }

  Replacement visit(Rewriter& rewriter, const Node& node) const {
    if (sums_.contains(node.outputs[0])) return sum_in_f32(rewriter, node);
    if (is<ops::RmsNorm, ops::LayerNorm>(node) && sums_.contains(node.inputs[0])) {
      const Value normalized = emit_node(*node.op, node.attributes, rewriter.map(node.inputs))[0];
      return {{cast(normalized, graph_.type(node.outputs[0]).dtype)}};
    }
    return std::nullopt;
  }

 private:
  // Returns whether only norms and other widened sums read the value.
  bool may_widen(ValueId sum) const {
    int reads = 0;
    for (const NodeId id : uses_.readers(sum)) {
      const Node& reader = graph_.node(id);
      if (!normalizes(reader, sum) && !sums_.contains(reader.outputs[0])) return false;
      reads += static_cast<int>(std::count(reader.inputs.begin(), reader.inputs.end(), sum));
    }
    return reads > 0 && reads == uses_.count(sum);  // outputs and updates count as uses, too
  }

  Replacement sum_in_f32(Rewriter& rewriter, const Node& add) const {
    std::vector<Value> terms;
    for (const ValueId term : add.inputs) {
      const Node* product = product_of(term);
      rewriter.from_nodes({product ? product : &add});  // a product keeps its name
      terms.push_back(in_f32(rewriter, term, product));
    }
    rewriter.from_nodes({&add});
    return {{terms[0] + terms[1]}};
  }

  // Returns the product that makes the term, if it can give its sums in f32 and nothing else reads them.
  const Node* product_of(ValueId term) const {
    const auto layer = match_sole<ops::Linear>(graph_, uses_, term);
    return is_bare_product(layer) ? layer.node : nullptr;
  }

  static Value in_f32(Rewriter& rewriter, ValueId term, const Node* product) {
    if (!product) return cast(rewriter.map(term), DType::f32);  // no node for a sum that is f32 already
    auto op = from_attributes<ops::Linear>(product->attributes);
    op.wide = true;
    return emit_node(op, rewriter.map(product->inputs))[0];
  }

  const Graph& graph_;
  const Uses uses_;
  std::set<ValueId> sums_;  // the widened sums
};

}  // namespace

Graph widen_sums(const Graph& graph, const PassContext& context) {
  const Widening widening(graph);
  if (!context.target || !context.target->adds_in_f32 || !widening.changes()) return graph.share();
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) { return widening.visit(rewriter, node); });
}

}  // namespace genesis::passes
