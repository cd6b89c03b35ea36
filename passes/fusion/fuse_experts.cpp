#include <algorithm>
#include <map>

#include "passes/core/native.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/expert_patterns.h"
#include "passes/fusion/passes.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/elementwise/fused_program.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::passes {
namespace {

// --- fused regions of routers and experts: a file may hold what fuse_elementwise made of scores, factors and activations

// Returns true if a node of one of these ops reads the value, or a reshape of it.
template <class... Ops>
bool is_read_by(const Graph& graph, const Uses& uses, ValueId value) {
  return std::ranges::any_of(uses.readers(value), [&](NodeId id) {
    const Node& reader = graph.node(id);
    return is<Ops...>(reader) ||
           (is<ops::Reshape>(reader) && is_read_by<Ops...>(graph, uses, reader.outputs[0]));
  });
}

template <class... Ops>
bool is_made_by(const Graph& graph, ValueId value) {
  const Node* made_by = producer(graph, behind_reshapes(graph, value));
  return made_by && is<Ops...>(*made_by);
}

// Returns true if the node makes what topk reads, reads what topk or gather make, or stands between grouped products.
bool is_part_of_mixture(const Graph& graph, const Uses& uses, const Node& node) {
  const auto any_input = [&](auto&& test) { return std::ranges::any_of(node.inputs, test); };
  const auto any_output = [&](auto&& test) { return std::ranges::any_of(node.outputs, test); };
  return any_output([&](ValueId y) { return is_read_by<ops::TopK>(graph, uses, y); }) ||
         any_input([&](ValueId x) { return is_made_by<ops::TopK, ops::Gather>(graph, x); }) ||
         (any_output([&](ValueId y) { return is_read_by<ops::GroupedMatmul>(graph, uses, y); }) &&
          any_input([&](ValueId x) { return is_made_by<ops::GroupedMatmul>(graph, x); }));
}

// Writes the ops of a fused region as nodes.
Replacement expand(Rewriter& rewriter, const Node& node) {
  std::vector<TensorType> types;
  for (const ValueId id : node.inputs) types.push_back(rewriter.old().type(id));
  const auto region = from_attributes<ops::Fused>(node.attributes);
  const FusedProgram program = parse_fused_program(region.body, region.outputs, types);
  std::vector<Value> values = rewriter.map(node.inputs), results;
  for (const FusedOp& op : program.ops) {
    std::vector<Value> operands;
    for (const int operand : op.operands) operands.push_back(values[static_cast<size_t>(operand)]);
    values.push_back(operands.empty() ? rewriter.graph().add_node(*op.op, op.attributes, {})[0]
                                      : emit_node(*op.op, op.attributes, operands)[0]);
  }
  for (const int output : program.outputs) results.push_back(values[static_cast<size_t>(output)]);
  return results;
}

Graph expand_regions(const Graph& graph) {
  const Uses uses(graph);
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (!is<ops::Fused>(node) || !is_part_of_mixture(graph, uses, node)) return std::nullopt;
    return expand(rewriter, node);
  });
}

class ExpertFuser {
 public:
  ExpertFuser(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph) {}

  Replacement visit(Rewriter& rewriter, const Node& node) {
    if (const auto made = made_.find(&node); made != made_.end()) return made->second;
    if (is<ops::TopK>(node)) return route(rewriter, node);
    if (is<ops::Matmul>(node) && !added_to(node)) return experts(rewriter, node, node, {});
    if (is<ops::Add>(node))
      for (const auto& [sum, addend] : either_way(node))
        if (const auto product = match_reshaped<ops::Matmul>(graph_, uses_, sum);
            product && added_to(*product.node) == &node)
          return experts(rewriter, *product.node, node, addend);
    return std::nullopt;
  }

 private:
  // Returns the addition that takes the product's result, reshaped or not, and adds a value of the same type; null: none.
  const Node* added_to(const Node& product) const {
    ValueId value = product.outputs[0];
    while (uses_.single(value) && uses_.readers(value).size() == 1) {
      const Node& reader = graph_.node(uses_.readers(value)[0]);
      if (is<ops::Add>(reader))
        return graph_.type(reader.inputs[0]) == graph_.type(reader.inputs[1]) ? &reader : nullptr;
      if (!is<ops::Reshape>(reader)) return nullptr;
      value = reader.outputs[0];
    }
    return nullptr;
  }

  Replacement route(Rewriter& rewriter, const Node& topk) {
    const auto router = find_router(graph_, uses_, topk);
    if (!router || !has_kernel(router->op, router->inputs)) return std::nullopt;
    const Node& factors = *producer(graph_, router->factors);
    rewriter.from_nodes({&topk, &factors, router->sort});
    const std::vector<Value> made = emit_node(router->op, rewriter.map(router->inputs));
    made_[router->sort] = {made.begin() + 1, made.end()};
    if (&factors != &topk) {
      made_[&factors] = {made[0]};
      return std::nullopt;  // copied, for nodes that read it besides
    }
    return std::vector<Value>{made[0], {}};
  }

  // Replaces `last`, which is the product of factors and results, or adds something to it.
  Replacement experts(Rewriter& rewriter, const Node& product, const Node& last, ValueId addend) {
    auto found = find_experts(graph_, uses_, product);
    if (!found) return std::nullopt;
    if (addend.index >= 0) {
      Shape shape = graph_.type(found->inputs[ops::Experts::kPlaces]).shape;
      const Shape& wanted = graph_.type(addend).shape;
      shape[shape.rank() - 1] = wanted[wanted.rank() - 1];
      if (!(shape == wanted)) return std::nullopt;
      found->op.has_addend = true;
      found->inputs.insert(found->inputs.begin() + ops::Experts::kAddend, addend);
    }
    if (!has_kernel(found->op, found->inputs)) return std::nullopt;
    if (&last != &product) found->nodes.push_back(&last);
    rewriter.from_nodes(found->nodes);
    const Value sums = emit(found->op, rewriter.map(found->inputs));
    return std::vector<Value>{reshape(sums, graph_.type(last.outputs[0]).shape)};
  }

  template <class Op>
  bool has_kernel(const Op& op, const std::vector<ValueId>& inputs) const {
    std::vector<TensorType> types;
    for (const ValueId id : inputs) types.push_back(graph_.type(id));
    for (const TensorType& type : types)
      if (!type.shape.is_constant()) return false;
    try {
      return types_fit(op, types) && runs_natively(context_, op_def<Op>(), to_attributes(op), types);
    } catch (const Error&) {  // the op does not take these types
      return false;
    }
  }
  static bool types_fit(const ops::Route&, const std::vector<TensorType>&) { return true; }
  static bool types_fit(const ops::Experts&, const std::vector<TensorType>& types) {
    return types[ops::Experts::kFactors].dtype == DType::f32 &&
           types[ops::Experts::kFactors].shape == types[ops::Experts::kPlaces].shape;
  }

  const Graph& graph_;
  const PassContext& context_;
  const Uses uses_;
  std::map<const Node*, std::vector<Value>> made_;  // by node that a route replaces
};

}  // namespace

Graph fuse_experts(const Graph& graph, const PassContext& context) {
  if (!context.target) return graph.share();
  const Graph expanded = expand_regions(graph);
  ExpertFuser fuser(expanded, context);
  return rewrite(expanded, [&](Rewriter& rewriter, const Node& node) { return fuser.visit(rewriter, node); });
}

}  // namespace genesis::passes
