#include "passes/training/autodiff.h"

#include <algorithm>

#include "passes/core/analysis.h"
#include "passes/core/formula.h"
#include "passes/core/rewriter.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::passes {
namespace {

class Backward {
 public:
  Backward(Graph& graph, size_t first_node, FormulaParts& parts)
      : graph_(graph), first_node_(first_node), parts_(parts) {}

  std::vector<Value> run(Value loss, const std::vector<Value>& wrt) {
    const size_t last_node = graph_.nodes().size();
    mark_dependents(wrt, last_node);
    {
      const NameScope scope(graph_, loss.name() + ".grad");
      gradient(loss.id) = ones_like(loss);
    }
    visit_all(last_node);
    std::vector<Value> result;
    for (const Value& value : wrt) result.push_back(gradient(value.id));
    return result;
  }

 private:
  void visit_all(size_t last_node) {
    for (size_t i = last_node; i-- > first_node_;) visit({static_cast<int32_t>(i)});
  }

  // Marks the values that depend on `wrt` through floating-point values: only they carry gradients.
  void mark_dependents(const std::vector<Value>& wrt, size_t last_node) {
    depends_.assign(graph_.values().size(), false);
    for (const Value& value : wrt) depends_[static_cast<size_t>(value.id.index)] = true;
    for (size_t i = first_node_; i < last_node; ++i) {
      const Node& node = graph_.nodes()[i];
      if (!std::ranges::any_of(node.inputs, [&](ValueId id) { return depends(id); })) continue;
      for (ValueId output : node.outputs)
        if (is_float(graph_.type(output).dtype)) depends_[static_cast<size_t>(output.index)] = true;
    }
  }

  bool depends(ValueId id) const {
    return static_cast<size_t>(id.index) < depends_.size() && depends_[static_cast<size_t>(id.index)];
  }

  Value& gradient(ValueId id) {
    const auto index = static_cast<size_t>(id.index);
    if (index >= gradients_.size()) gradients_.resize(graph_.values().size());
    return gradients_[index];
  }

  void visit(NodeId id) {
    // Copies the node: the rule adds nodes, which invalidates references into the graph.
    const Node node = graph_.node(id);
    std::vector<Value> dy;
    std::vector<bool> wants;
    for (ValueId output : node.outputs) dy.push_back(depends(output) ? gradient(output) : Value());
    for (ValueId input : node.inputs) wants.push_back(depends(input));
    if (std::ranges::none_of(dy, [](const Value& v) { return bool(v); })) return;
    if (std::ranges::find(wants, true) == wants.end()) return;
    graph_.set_origins(origins_of(node));
    const bool by_formula = node.op->grad == nullptr && node.op->formula != nullptr;
    with_context(
        [&] {
          if (by_formula) return apply_formula(node, dy, wants);
          apply_rule(id, node, std::move(dy), std::move(wants));
        },
        [&] { return "while differentiating node '" + node.name + "'"; });
    graph_.set_origins({});
  }

  void apply_rule(NodeId id, const Node& node, std::vector<Value> dy, std::vector<bool> wants) {
    if (node.op->grad == nullptr)
      fail(
          "op '{}' has no gradient, and the loss depends on it: take it off the path to the loss, or freeze "
          "its inputs",
          node.op->name());
    const NameScope scope(graph_, node.name + ".grad");
    GradientContext context(graph_, id, std::move(dy), std::move(wants));
    node.op->grad(context, node.attributes);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (const Value dx = context.gradients()[i])
        accumulate(node.inputs[i], fitted(dx, graph_.type(node.inputs[i])));
  }

  // Differentiates the op's formula, which is written for this once more. If the node becomes its formula later, equal nodes of both
  // become one.
  void apply_formula(const Node& node, const std::vector<Value>& dy, const std::vector<bool>& wants) {
    Backward inside(graph_, graph_.nodes().size(), parts_);
    std::vector<Value> inputs, wanted;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(graph_.handle(node.inputs[i]));
      const auto is_it = [&](const Value& value) { return value.is(inputs.back()); };
      if (wants[i] && std::ranges::none_of(wanted, is_it)) wanted.push_back(inputs.back());
    }
    std::vector<Value> results;
    {
      const NameScope scope(graph_, node.name + ".formula");
      results = write_formula(*node.op, node.attributes, inputs, parts_);
    }
    const size_t last_node = graph_.nodes().size();
    inside.mark_dependents(wanted, last_node);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (dy[i] && inside.depends(results[i].id)) inside.accumulate(results[i].id, dy[i]);
    inside.visit_all(last_node);
    graph_.set_origins(origins_of(node));
    const NameScope scope(graph_, node.name + ".grad");
    for (const Value& value : wanted)
      if (const Value dx = inside.gradient(value.id)) accumulate(value.id, dx);
  }

  // Sums dx to the input's shape and casts it to the input's dtype: a rule may return a gradient in the broadcast shape or in a
  // wider dtype.
  static Value fitted(Value dx, const TensorType& input) {
    if (!(dx.shape() == input.shape)) dx = sum_to(dx, input.shape);
    return cast(dx, input.dtype);
  }

  // Adds each contribution at once, so that no two contributions to one value stay alive for long.
  void accumulate(ValueId input, Value dx) {
    const Value sum = gradient(input) ? add(gradient(input), dx) : dx;
    gradient(input) = sum;
  }

  Graph& graph_;
  size_t first_node_;
  FormulaParts& parts_;
  std::vector<bool> depends_;     // by value id; values added later do not depend
  std::vector<Value> gradients_;  // by value id
};

void check_loss(Value loss) {
  if (!is_float(loss.dtype()) || !(loss.shape().numel() == Dim(1)))
    fail("cannot differentiate '{}' of type {}: a loss is one real number (use mean or sum)", loss.name(),
         loss.type().to_string());
}

void check_wrt(const std::vector<Value>& wrt) {
  for (const Value& value : wrt)
    if (!is_float(value.dtype()))
      fail("there is no gradient with respect to '{}' of type {}: only real values have one", value.name(),
           value.type().to_string());
}

}  // namespace

std::vector<Value> gradients_if_any(Graph& graph, Value loss, const std::vector<Value>& wrt,
                                    size_t first_node) {
  check_loss(loss);
  check_wrt(wrt);
  FormulaParts parts;
  return Backward(graph, first_node, parts).run(loss, wrt);
}

std::vector<Value> gradients(Graph& graph, Value loss, const std::vector<Value>& wrt) {
  std::vector<Value> result = gradients_if_any(graph, loss, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    const NameScope scope(graph, wrt[i].name() + ".grad");
    if (!result[i]) result[i] = zeros_like(wrt[i]);
  }
  return result;
}

}  // namespace genesis::passes
