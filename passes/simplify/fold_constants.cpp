#include "passes/simplify/passes.h"

#include <algorithm>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/loop.h"

namespace genesis::passes {
namespace {

class Folder {
 public:
  Folder(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph), known_(graph.values().size()) {
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueInfo& value = graph.values()[i];
      if (value.kind == ValueKind::kConstant)
        known_[i] = graph.model().tensors()[static_cast<size_t>(value.index)].tensor;
    }
    for (const Node& node : graph.nodes()) evaluate(node);
  }

  Replacement visit(Rewriter& rewriter, const Node& node) {
    if (!is_folded(node) || !is_needed(node)) return std::nullopt;
    std::vector<Value> values;
    for (ValueId output : node.outputs) values.push_back(constant(rewriter, output));
    return values;
  }

 private:
  Tensor& known(ValueId id) { return known_[static_cast<size_t>(id.index)]; }

  bool is_folded(const Node& node) {
    const bool is_cheap_to_make = node.inputs.empty() || is<ops::Expand>(node);
    return !known(node.outputs[0]).empty_handle() && !is_cheap_to_make;
  }

  // Returns whether an output or a node that is not folded itself reads it.
  bool is_needed(const Node& node) {
    return std::ranges::any_of(node.outputs, [&](ValueId id) {
      const std::vector<NodeId>& readers = uses_.readers(id);
      int by_nodes = 0;
      for (NodeId reader : readers) {
        if (!is_folded(graph_.node(reader))) return true;
        const auto& inputs = graph_.node(reader).inputs;
        by_nodes += static_cast<int>(std::ranges::count(inputs, id));
      }
      return uses_.count(id) > by_nodes;  // outputs and updates read it
    });
  }

  // A size that is not bound yet (dim_value of a symbol) is unknown although the node has no inputs.
  static bool has_symbols(const Node& node) {
    return std::ranges::any_of(node.attributes, [](const auto& attribute) {
      const Shape* shape = std::get_if<Shape>(&attribute.second);
      return shape && !shape->is_constant();
    });
  }

  bool is_small(const Node& node) const {
    return std::ranges::all_of(node.outputs, [&](ValueId id) {
      const TensorType& type = graph_.type(id);
      return type.shape.is_constant() && type.bytes() <= context_.max_folded_bytes;
    });
  }

  void evaluate(const Node& node) {
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) {
      if (known(input).empty_handle()) return;
      inputs.push_back(known(input));
    }
    if (node.op->info.collective || is<ops::Loop>(*node.op) || has_symbols(node) || !is_small(node)) return;
    std::vector<TensorType> output_types;
    for (ValueId output : node.outputs) output_types.push_back(graph_.type(output));
    const auto results = context_.target->evaluate(
        {*node.op, node.attributes, graph_.input_types(node), output_types}, inputs);
    if (!results) return;
    for (size_t i = 0; i < node.outputs.size(); ++i) known(node.outputs[i]) = (*results)[i];
  }

  Value constant(Rewriter& rewriter, ValueId id) {
    return rewriter.graph().constant(graph_.model().add_tensor("folded." + graph_.value(id).name, known(id)));
  }

  const Graph& graph_;
  const PassContext& context_;
  const Uses uses_;
  std::vector<Tensor> known_;  // by value id; an empty handle if unknown
};

}  // namespace

Graph fold_constants(const Graph& graph, const PassContext& context) {
  if (!context.target || !context.target->evaluate) return graph.share();
  Folder folder(graph, context);
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) { return folder.visit(rewriter, node); });
}

}  // namespace genesis::passes
