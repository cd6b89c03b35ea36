#include <algorithm>
#include <map>

#include "passes/core/match.h"
#include "passes/core/native.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/elementwise/fused_program.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::passes {
namespace {

Dim last_size(const TensorType& type) { return type.shape[type.shape.rank() - 1]; }

// Returns the product of the axes before the last.
Dim leading_size(const TensorType& type) {
  Dim rows = 1;
  for (int axis = 0; axis + 1 < type.shape.rank(); ++axis) rows = rows * type.shape[axis];
  return rows;
}

bool is_last_axis(const TensorType& type, int64_t axis) {
  return axis == -1 || axis == type.shape.rank() - 1;
}

// --- fused regions beside a choice: a file may hold what fuse_elementwise made of scores and factors

// Returns true if the node makes what topk reads, or reads what topk or gather make.
bool is_beside_choice(const Graph& graph, const Uses& uses, const Node& node) {
  const auto is_read_by_topk = [&](ValueId output) {
    return std::ranges::any_of(uses.readers(output),
                               [&](NodeId id) { return is<ops::TopK>(graph.node(id)); });
  };
  const auto is_chosen = [&](ValueId input) {
    const Node* made_by = producer(graph, input);
    return made_by && is<ops::TopK, ops::Gather>(*made_by);
  };
  return std::ranges::any_of(node.outputs, is_read_by_topk) || std::ranges::any_of(node.inputs, is_chosen);
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

Graph expand_regions_beside_choices(const Graph& graph) {
  const Uses uses(graph);
  return rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
    if (!is<ops::Fused>(node) || !is_beside_choice(graph, uses, node)) return std::nullopt;
    return expand(rewriter, node);
  });
}

// --- route: scores of logits, topk, factors and sort_groups

// The nodes of a router. `factors` makes the factors of the chosen experts.
struct Router {
  ops::Route op;
  std::vector<ValueId> inputs;  // logits [, bias]
  ValueId factors;
  const Node* sort = nullptr;
};

class RouterMatch {
 public:
  RouterMatch(const Graph& graph, const Uses& uses, const Node& topk)
      : graph_(graph), uses_(uses), topk_(topk) {}

  std::optional<Router> find() {
    const auto topk = match<ops::TopK>(topk_);
    if (!topk || !topk->largest || !is_last_axis(graph_.type(topk_.inputs[0]), topk->axis))
      return std::nullopt;
    if (graph_.type(topk_.inputs[0]).dtype != DType::f32) return std::nullopt;
    router_.op.k = topk->k;
    router_.sort = reader_of<ops::SortGroups>(topk_.outputs[1]);
    router_.factors = topk_.outputs[0];
    if (!router_.sort || !find_scores(topk_.inputs[0])) return std::nullopt;
    if (!(last_size(graph_.type(topk_.inputs[0])) == Dim(match<ops::SortGroups>(*router_.sort)->groups)))
      return std::nullopt;
    if (uses_.count(topk_.outputs[1]) != (has_bias() ? 2 : 1)) return std::nullopt;
    find_normalization();
    find_factor();
    return router_;
  }

 private:
  bool has_bias() const { return router_.inputs.size() > 1; }

  // Returns the first node of this op that reads the value; null if there is none.
  template <class Op>
  const Node* reader_of(ValueId value) const {
    for (const NodeId id : uses_.readers(value))
      if (const Node& node = graph_.node(id); is<Op>(node)) return &node;
    return nullptr;
  }

  bool find_scores(ValueId wanted) {
    if (const auto sum = match<ops::Add>(graph_, wanted)) return find_biased(*sum.node);
    if (const auto softmax = match<ops::Softmax>(graph_, wanted);
        softmax && is_last_axis(graph_.type(wanted), softmax->axis)) {
      router_.inputs = {softmax.input(0)};
      return true;
    }
    if (const auto sigmoid = match<ops::Sigmoid>(graph_, wanted)) {
      router_.op.scores = RouteScores::kSigmoid;
      router_.inputs = {sigmoid.input(0)};
      return true;
    }
    const Node* softmax =
        uses_.single(topk_.outputs[0]) ? reader_of<ops::Softmax>(topk_.outputs[0]) : nullptr;
    if (!softmax || !is_last_axis(graph_.type(topk_.outputs[0]), match<ops::Softmax>(*softmax)->axis))
      return false;
    router_.op.scores = RouteScores::kSoftmaxOfChosen;
    router_.inputs = {wanted};
    router_.factors = softmax->outputs[0];
    return true;
  }

  // Finds scores plus a bias, where factors are the scores at the chosen places.
  bool find_biased(const Node& sum) {
    const TensorType& type = graph_.type(sum.outputs[0]);
    for (const auto& [scores, bias] : either_way(sum)) {
      const TensorType wanted{DType::f32, {type.shape[type.shape.rank() - 1]}};
      if (!(graph_.type(bias) == wanted) || match<ops::Add>(graph_, scores) || !find_scores(scores)) continue;
      const Node* gather = reader_of<ops::Gather>(topk_.outputs[1]);
      if (!gather || gather->inputs[0] != scores || uses_.count(topk_.outputs[0]) > 0 ||
          !is_last_axis(type, match<ops::Gather>(*gather)->axis))
        return false;
      router_.factors = gather->outputs[0];
      router_.inputs.push_back(bias);
      return router_.op.scores != RouteScores::kSoftmaxOfChosen;
    }
    return false;
  }

  // Factors divided by their sum, or by that and a small number.
  void find_normalization() {
    const Node* division = reader_of<ops::Div>(router_.factors);
    if (!division || division->inputs[0] != router_.factors || uses_.count(router_.factors) != 2) return;
    ValueId total = division->inputs[1];
    double least = 0;
    if (const auto more = match_sole<ops::Add>(graph_, uses_, total))
      for (const auto& [sum, number] : either_way(*more.node))
        if (const auto value = uniform_value(graph_, number); value && least == 0)
          least = *value, total = sum;
    const auto sum = match_sole<ops::Sum>(graph_, uses_, total);
    if (!sum || sum.input(0) != router_.factors || !sum->keep_dims || sum->axes.size() != 1 ||
        !is_last_axis(graph_.type(router_.factors), sum->axes[0]) ||
        !(graph_.type(division->outputs[0]) == graph_.type(router_.factors)))
      return;
    router_.op.normalized = true;
    router_.op.least_sum = least;
    router_.factors = division->outputs[0];
  }

  void find_factor() {
    const Node* product = uses_.single(router_.factors) ? reader_of<ops::Mul>(router_.factors) : nullptr;
    if (!product) return;
    for (const auto& [factors, number] : either_way(*product))
      if (const auto value = uniform_value(graph_, number);
          value && factors == router_.factors && graph_.type(product->outputs[0]) == graph_.type(factors)) {
        router_.op.factor = *value;
        router_.factors = product->outputs[0];
        return;
      }
  }

  const Graph& graph_;
  const Uses& uses_;
  const Node& topk_;
  Router router_;
};

// --- experts: grouped products, swiglu, and the sum that the factors weigh

// The node that makes a value which only one node reads, behind reshapes of the same kind.
template <class Op>
Matched<Op> match_reshaped(const Graph& graph, const Uses& uses, ValueId value) {
  while (const auto reshape = match_sole<ops::Reshape>(graph, uses, value)) value = reshape.input(0);
  return match_sole<Op>(graph, uses, value);
}

ValueId behind_reshapes(const Graph& graph, ValueId value) {
  while (const auto reshape = match<ops::Reshape>(graph, value)) value = reshape.input(0);
  return value;
}

struct ExpertNodes {
  ops::Experts op;
  std::vector<ValueId> inputs;  // without the factors' place filled: see factors
  std::vector<const Node*> nodes;
};

// Returns the scales of a grouped product with quantized weights.
void add_scales(const Matched<ops::GroupedMatmul>& product, std::vector<ValueId>& inputs) {
  if (product->is_quantized()) inputs.push_back(product.input(2));
}

// Returns true if the sizes are those of experts, between which reshapes may have made others: `x` has rows, each of which `own`
// repeats for its pairs, and `results` are the rows of `down`, one for each pair.
bool sizes_fit(const Graph& graph, const Matched<ops::IndexSelect>& rows, ValueId own, const Node& down,
               const Matched<ops::Embedding>& chosen, const Node& sum) {
  const TensorType &x = graph.type(rows.input(0)), &places = graph.type(chosen.input(0));
  const Dim pairs = graph.type(rows.input(1)).shape.numel();
  if (x.shape.rank() < 2 || places.shape.rank() < 1) return false;
  for (int axis = 1; axis + 1 < x.shape.rank(); ++axis)
    if (!(x.shape[axis] == Dim(1))) return false;
  const Dim hidden = last_size(graph.type(down.outputs[0]));
  return last_size(graph.type(own)) == last_size(x) && leading_size(graph.type(own)) == pairs &&
         places.shape.numel() == pairs && graph.type(chosen.input(1)).shape == Shape{pairs, hidden} &&
         graph.type(sum.outputs[0]).shape.numel() == leading_size(places) * hidden;
}

std::optional<ExpertNodes> find_experts(const Graph& graph, const Uses& uses, const Node& sum) {
  const auto product = match<ops::Matmul>(sum);
  if (!product || !product->is_plain() || product->transpose_a || product->transpose_b ||
      product.num_inputs() != 2)
    return std::nullopt;
  const auto chosen = match_sole<ops::Embedding>(graph, uses, product.input(1));
  if (!chosen || chosen->part.is_part()) return std::nullopt;
  const auto down = match_reshaped<ops::GroupedMatmul>(graph, uses, chosen.input(1));
  if (!down || !down->transpose_weights) return std::nullopt;
  const auto gated = match_reshaped<ops::Swiglu>(graph, uses, down.input(0));
  if (!gated || gated.num_inputs() != 2) return std::nullopt;
  const auto gate = match_sole<ops::GroupedMatmul>(graph, uses, gated.input(0)),
             up = match_sole<ops::GroupedMatmul>(graph, uses, gated.input(1));
  if (!gate || !up || !(gate->weight_format == up->weight_format) || !gate->transpose_weights ||
      !up->transpose_weights || gate.input(0) != up.input(0))
    return std::nullopt;
  const ValueId offsets = down.node->inputs.back();
  if (gate.node->inputs.back() != offsets || up.node->inputs.back() != offsets) return std::nullopt;
  const auto rows = match<ops::IndexSelect>(graph, behind_reshapes(graph, gate.input(0)));
  const ValueId factors = behind_reshapes(graph, product.input(0));
  const auto narrowed = match<ops::Cast>(graph, factors);
  if (!rows || rows->axis != 0 || !sizes_fit(graph, rows, gate.input(0), *down.node, chosen, sum))
    return std::nullopt;
  ExpertNodes found;
  found.op.format = gate->weight_format;
  found.op.down_format = down->weight_format;
  found.inputs = {rows.input(0),   gate.input(1),
                  up.input(1),     down.input(1),
                  rows.input(1),   offsets,
                  chosen.input(0), narrowed ? behind_reshapes(graph, narrowed.input(0)) : factors};
  add_scales(gate, found.inputs);
  add_scales(up, found.inputs);
  add_scales(down, found.inputs);
  found.nodes = {gate.node, up.node, gated.node, down.node, &sum};
  return found;
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
    const auto router = RouterMatch(graph_, uses_, topk).find();
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
  const Graph expanded = expand_regions_beside_choices(graph);
  ExpertFuser fuser(expanded, context);
  return rewrite(expanded, [&](Rewriter& rewriter, const Node& node) { return fuser.visit(rewriter, node); });
}

}  // namespace genesis::passes
