#include "passes/fusion/fuse_norms.h"

#include <tuple>

#include "passes/core/analysis.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::passes {
namespace {

class NormFuser {
 public:
  explicit NormFuser(const Graph& graph) : graph_(graph), uses_(graph) {}

  Replacement visit(Rewriter& rewriter, const Node& node) const {
    if (auto hit = normalised(rewriter, node)) return hit;
    if (auto hit = with_weight(rewriter, node)) return hit;
    return with_bias(rewriter, node);
  }

 private:
  const Node* sole(ValueId value, std::string_view op) const {
    return sole_producer(graph_, uses_, value, op);
  }

  // The input of mean(x, last axis, keep_dims), or nothing.
  template <class Op>
  std::optional<ValueId> over_last_axis(const Node* node) const {
    if (!node) return std::nullopt;
    const auto op = from_attributes<Op>(node->attributes);
    const int rank = graph_.type(node->inputs[0]).shape.rank();
    if (!op.keep_dims || op.axes.size() != 1 || normalize_axis(op.axes[0], rank) != rank - 1)
      return std::nullopt;
    return node->inputs[0];
  }

  // x of square(x), x * x, pow(x, 2).
  std::optional<ValueId> squared(ValueId value) const {
    const Node* node = uses_.single(value) ? producer(graph_, value) : nullptr;
    if (!node) return std::nullopt;
    const std::string_view op = node->op->name();
    if (op == "square" || (op == "mul" && node->inputs[0] == node->inputs[1])) return node->inputs[0];
    return op == "pow" && uniform_value(graph_, node->inputs[1]) == 2 ? std::optional(node->inputs[0])
                                                                      : std::nullopt;
  }

  struct Scaled {
    ValueId x, moment;  // x * rsqrt(moment + eps)
    double eps;
  };

  std::optional<Scaled> match_scaled(const Node& node) const {
    const std::string_view op = node.op->name();
    if (op == "div") return add_eps(node.inputs[0], sole(node.inputs[1], "sqrt"));
    if (op != "mul") return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (const Node* rsqrt = sole(node.inputs[1 - i], "rsqrt")) return add_eps(node.inputs[i], rsqrt);
    return std::nullopt;
  }

  std::optional<Scaled> add_eps(ValueId x, const Node* root) const {
    const Node* sum = root ? sole(root->inputs[0], "add") : nullptr;
    if (!sum) return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (const auto eps = uniform_value(graph_, sum->inputs[i])) return Scaled{x, sum->inputs[1 - i], *eps};
    return std::nullopt;
  }

  // x of x - mean(x), or nothing.
  std::optional<ValueId> centred(ValueId d) const {
    const Node* sub = producer(graph_, d, "sub");
    if (!sub) return std::nullopt;
    const auto x = over_last_axis<ops::Mean>(producer(graph_, sub->inputs[1], "mean"));
    return x && *x == sub->inputs[0] ? x : std::nullopt;
  }

  bool is_variance_of(ValueId moment, ValueId x) const {
    const Node* node = sole(moment, "var");
    if (!node || from_attributes<ops::Var>(node->attributes).correction != 0) return false;
    return over_last_axis<ops::Var>(node) == x;
  }

  Replacement normalised(Rewriter& rewriter, const Node& node) const {
    const auto scaled = match_scaled(node);
    if (!scaled || !(graph_.type(scaled->x) == graph_.type(node.outputs[0]))) return std::nullopt;
    if (!is_float(graph_.type(scaled->x).dtype)) return std::nullopt;
    const auto x = centred(scaled->x);
    if (x && is_variance_of(scaled->moment, *x)) return {{layer_norm(rewriter.map(*x), {}, {}, scaled->eps)}};
    const auto mean_of = over_last_axis<ops::Mean>(sole(scaled->moment, "mean"));
    const auto base = mean_of ? squared(*mean_of) : std::nullopt;
    if (base != scaled->x) return std::nullopt;
    if (x) return {{layer_norm(rewriter.map(*x), {}, {}, scaled->eps)}};
    return {{rms_norm(rewriter.map(*base), {}, scaled->eps)}};
  }

  // Is `value` a vector along the last axis of `norm`, of its dtype?
  bool is_row(ValueId value, const Node& norm) const {
    const TensorType& type = graph_.type(norm.outputs[0]);
    return graph_.type(value) == TensorType{type.dtype, {type.shape[type.shape.rank() - 1]}};
  }

  Replacement with_weight(Rewriter& rewriter, const Node& node) const {
    if (node.op->name() != "mul") return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId weight = node.inputs[1 - i];
      if (const Node* norm = sole(node.inputs[i], "rms_norm"); norm && is_row(weight, *norm)) {
        const auto op = from_attributes<ops::RmsNorm>(norm->attributes);
        if (op.has_weight || op.num_axes != 1) continue;
        rewriter.from_nodes({norm, &node});
        return {{rms_norm(rewriter.map(norm->inputs[0]), rewriter.map(weight), op.eps)}};
      }
      if (const Node* norm = sole(node.inputs[i], "layer_norm"); norm && is_row(weight, *norm)) {
        const auto op = from_attributes<ops::LayerNorm>(norm->attributes);
        if (op.has_weight || op.has_bias || op.num_axes != 1) continue;
        rewriter.from_nodes({norm, &node});
        return {{layer_norm(rewriter.map(norm->inputs[0]), rewriter.map(weight), {}, op.eps)}};
      }
    }
    return std::nullopt;
  }

  Replacement with_bias(Rewriter& rewriter, const Node& node) const {
    if (node.op->name() != "add") return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const Node* norm = sole(node.inputs[i], "layer_norm");
      const ValueId bias = node.inputs[1 - i];
      if (!norm || !is_row(bias, *norm)) continue;
      const auto op = from_attributes<ops::LayerNorm>(norm->attributes);
      if (!op.has_weight || op.has_bias || op.num_axes != 1) continue;
      rewriter.from_nodes({norm, &node});
      return {{layer_norm(rewriter.map(norm->inputs[0]), rewriter.map(norm->inputs[1]), rewriter.map(bias),
                          op.eps)}};
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const Uses uses_;
};

// And whether there was anything to fuse.
std::pair<Graph, bool> fuse_once(const Graph& graph, const PassContext& context) {
  const NormFuser fuser(graph);
  bool hit = false;
  const auto visit = [&](Rewriter& rewriter, const Node& node) {
    Replacement replacement = fuser.visit(rewriter, node);
    hit = hit || replacement;
    return replacement;
  };
  Graph result = rewrite(graph, visit, context.target);
  return {std::move(result), hit};
}

}  // namespace

// Three rounds: the norm, its weight, its bias.
Graph fuse_norms(const Graph& graph, const PassContext& context) {
  auto [fused, hit] = fuse_once(graph, context);
  for (int round = 1; round < 3 && hit; ++round) std::tie(fused, hit) = fuse_once(fused, context);
  return std::move(fused);
}

}  // namespace genesis::passes
