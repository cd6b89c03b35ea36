#include "passes/fusion/passes.h"

#include <tuple>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::passes {
namespace {

class NormFuser {
 public:
  explicit NormFuser(const Graph& graph) : graph_(graph), uses_(graph) {}

  Replacement visit(Rewriter& rewriter, const Node& node) const {
    if (auto hit = normalized(rewriter, node)) return hit;
    if (auto hit = with_weight(rewriter, node)) return hit;
    return with_bias(rewriter, node);
  }

 private:
  template <class Op>
  Matched<Op> sole(ValueId value) const {
    return match_sole<Op>(graph_, uses_, value);
  }

  // Returns the input of mean(x, last axis, keep_dims), or nothing.
  template <class Op>
  std::optional<ValueId> over_last_axis(const Matched<Op>& op) const {
    if (!op || !op->keep_dims || op->axes.size() != 1) return std::nullopt;
    const int rank = graph_.type(op.input(0)).shape.rank();
    return normalize_axis(op->axes[0], rank) == rank - 1 ? std::optional(op.input(0)) : std::nullopt;
  }

  // Returns x for square(x), x * x and pow(x, 2).
  std::optional<ValueId> squared(ValueId value) const {
    const Node* node = uses_.single(value) ? producer(graph_, value) : nullptr;
    if (!node) return std::nullopt;
    const bool is_square = is<ops::Square>(*node) ||
                           (is<ops::Mul>(*node) && node->inputs[0] == node->inputs[1]) ||
                           (is<ops::Pow>(*node) && uniform_value(graph_, node->inputs[1]) == 2);
    return is_square ? std::optional(node->inputs[0]) : std::nullopt;
  }

  struct Scaled {
    ValueId x, moment;  // x * rsqrt(moment + eps)
    double eps;
  };

  std::optional<Scaled> match_scaled(const Node& node) const {
    if (is<ops::Div>(node)) return add_eps(node.inputs[0], sole<ops::Sqrt>(node.inputs[1]).node);
    if (!is<ops::Mul>(node)) return std::nullopt;
    for (const auto& [x, root] : either_way(node))
      if (const auto rsqrt = sole<ops::Rsqrt>(root)) return add_eps(x, rsqrt.node);
    return std::nullopt;
  }

  std::optional<Scaled> add_eps(ValueId x, const Node* root) const {
    const auto sum = root ? sole<ops::Add>(root->inputs[0]) : Matched<ops::Add>();
    if (!sum) return std::nullopt;
    for (const auto& [number, moment] : either_way(*sum.node))
      if (const auto eps = uniform_value(graph_, number)) return Scaled{x, moment, *eps};
    return std::nullopt;
  }

  // Returns x for x - mean(x), or nothing.
  std::optional<ValueId> centered(ValueId d) const {
    const auto sub = match<ops::Sub>(graph_, d);
    if (!sub) return std::nullopt;
    const auto x = over_last_axis(match<ops::Mean>(graph_, sub.input(1)));
    return x && *x == sub.input(0) ? x : std::nullopt;
  }

  bool is_variance_of(ValueId moment, ValueId x) const {
    const auto variance = sole<ops::Var>(moment);
    return variance && variance->correction == 0 && over_last_axis(variance) == x;
  }

  Replacement normalized(Rewriter& rewriter, const Node& node) const {
    const auto scaled = match_scaled(node);
    if (!scaled || !(graph_.type(scaled->x) == graph_.type(node.outputs[0]))) return std::nullopt;
    if (!is_float(graph_.type(scaled->x).dtype)) return std::nullopt;
    const auto x = centered(scaled->x);
    if (x && is_variance_of(scaled->moment, *x)) return {{layer_norm(rewriter.map(*x), {}, {}, scaled->eps)}};
    const auto mean_of = over_last_axis(sole<ops::Mean>(scaled->moment));
    const auto base = mean_of ? squared(*mean_of) : std::nullopt;
    if (base != scaled->x) return std::nullopt;
    if (x) return {{layer_norm(rewriter.map(*x), {}, {}, scaled->eps)}};
    return {{rms_norm(rewriter.map(*base), {}, scaled->eps)}};
  }

  // Returns whether `value` is a vector along the last axis of `norm`, in its dtype.
  bool is_row(ValueId value, const Node& norm) const {
    const TensorType& type = graph_.type(norm.outputs[0]);
    return graph_.type(value) == TensorType{type.dtype, {type.shape[type.shape.rank() - 1]}};
  }

  Replacement with_weight(Rewriter& rewriter, const Node& node) const {
    if (!is<ops::Mul>(node)) return std::nullopt;
    for (const auto& [product, weight] : either_way(node)) {
      if (const auto norm = sole<ops::RmsNorm>(product); norm && is_row(weight, *norm.node)) {
        if (norm->has_weight || norm->num_axes != 1) continue;
        rewriter.from_nodes({norm.node, &node});
        return {{rms_norm(rewriter.map(norm.input(0)), rewriter.map(weight), norm->eps)}};
      }
      if (const auto norm = sole<ops::LayerNorm>(product); norm && is_row(weight, *norm.node)) {
        if (norm->has_weight || norm->has_bias || norm->num_axes != 1) continue;
        rewriter.from_nodes({norm.node, &node});
        return {{layer_norm(rewriter.map(norm.input(0)), rewriter.map(weight), {}, norm->eps)}};
      }
    }
    return std::nullopt;
  }

  Replacement with_bias(Rewriter& rewriter, const Node& node) const {
    if (!is<ops::Add>(node)) return std::nullopt;
    for (const auto& [sum, bias] : either_way(node)) {
      const auto norm = sole<ops::LayerNorm>(sum);
      if (!norm || !is_row(bias, *norm.node)) continue;
      if (!norm->has_weight || norm->has_bias || norm->num_axes != 1) continue;
      rewriter.from_nodes({norm.node, &node});
      const std::vector<Value> inputs = rewriter.map(norm.node->inputs);
      return {{layer_norm(inputs[0], inputs[1], rewriter.map(bias), norm->eps)}};
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const Uses uses_;
};

// Fuses all matches once; the bool says whether there were any.
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

// Takes three rounds: the norm, its weight, its bias.
Graph fuse_norms(const Graph& graph, const PassContext& context) {
  auto [fused, hit] = fuse_once(graph, context);
  for (int round = 1; round < 3 && hit; ++round) std::tie(fused, hit) = fuse_once(fused, context);
  return std::move(fused);
}

}  // namespace genesis::passes
