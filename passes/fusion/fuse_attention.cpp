#include "passes/fusion/passes.h"

#include <cmath>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::passes {
namespace {

class AttentionFuser {
 public:
  explicit AttentionFuser(const Graph& graph) : graph_(graph), uses_(graph) {}

  Replacement visit(Rewriter& rewriter, const Node& node) const {
    Match match;
    if (!match_product_with_v(node, match)) return std::nullopt;
    match.nodes.push_back(&node);
    rewriter.from_nodes(match.nodes);
    const AttentionOptions options{match.causal, match.scale, AttentionLayout::kBHTD};
    const Value mask = match.mask ? rewriter.map(*match.mask) : Value();
    return {{attention(rewriter.map(match.q), rewriter.map(match.k), rewriter.map(match.v), options, mask)}};
  }

 private:
  struct Match {
    ValueId q, k, v;
    std::optional<ValueId> mask;
    double scale = 1;
    bool causal = false;
    int reads_of_scores = 1;
    std::vector<const Node*> nodes;
  };

  template <class Op>
  Matched<Op> sole(ValueId value) const {
    return match_sole<Op>(graph_, uses_, value);
  }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }

  bool match_product_with_v(const Node& node, Match& m) const {
    const auto product = match<ops::Matmul>(node);
    if (!product || !product->is_plain() || shape(node.outputs[0]).rank() != 4) return false;
    if (product->transpose_a || product->transpose_b || node.inputs.size() > 2) return false;
    m.v = node.inputs[1];
    return match_weights(node.inputs[0], m) && fits(m, node);
  }

  bool match_weights(ValueId weights, Match& m) const {
    if (const auto choice = sole<ops::Where>(weights)) {
      if (!is_zero_without_keys(choice)) return false;
      m.nodes.push_back(choice.node);
      m.reads_of_scores = 2;
      weights = choice.input(2);
    }
    if (const auto softmax = sole<ops::Softmax>(weights)) {
      if (normalize_axis(softmax->axis, 4) != 3) return false;
      m.nodes.push_back(softmax.node);
      return match_masked(softmax.input(0), m);
    }
    if (m.reads_of_scores == 2) return false;
    const auto softmax = sole<ops::CausalSoftmax>(weights);
    if (!softmax) return false;
    m.causal = true;
    m.scale = softmax->scale;
    m.nodes.push_back(softmax.node);
    return match_scaled(softmax.input(0), m);
  }

  // where(not any(scores != -inf), 0, softmax(scores)): a query that sees no key gives zeros, as the op does.
  bool is_zero_without_keys(const Matched<ops::Where>& choice) const {
    const auto softmax = match<ops::Softmax>(graph_, choice.input(2));
    const auto none = match<ops::LogicalNot>(graph_, choice.input(0));
    const auto any = none ? match<ops::Any>(graph_, none.input(0)) : Matched<ops::Any>();
    const auto seen = any ? match<ops::LogicalNot>(graph_, any.input(0)) : Matched<ops::LogicalNot>();
    const auto hidden = seen ? match<ops::Eq>(graph_, seen.input(0)) : Matched<ops::Eq>();
    if (!softmax || !hidden || !any->keep_dims || any->axes.size() != 1 ||
        normalize_axis(any->axes[0], 4) != 3)
      return false;
    const auto least = uniform_value(graph_, hidden.input(1));
    return uniform_value(graph_, choice.input(1)) == 0 && hidden.input(0) == softmax.input(0) && least &&
           std::isinf(*least) && *least < 0;
  }

  bool match_masked(ValueId scores, Match& m) const {
    if (m.reads_of_scores == 2 && uses_.count(scores) != 2) return false;
    const auto sum = m.reads_of_scores == 2 ? match<ops::Add>(graph_, scores) : sole<ops::Add>(scores);
    if (sum)
      for (const auto& [scaled, mask] : either_way(*sum.node)) {
        Match with_mask = m;
        with_mask.mask = mask;
        if (is_float(graph_.type(mask).dtype) && match_scaled(scaled, with_mask)) return accept(with_mask, m);
      }
    if (const auto where = sole<ops::Where>(scores)) {
      const auto fill = uniform_value(graph_, where.input(2));
      if (!fill || !std::isinf(*fill) || *fill > 0) return false;
      m.causal = is_lower_triangle(where.input(0));
      if (!m.causal) m.mask = where.input(0);
      return match_scaled(where.input(1), m);
    }
    return match_scaled(scores, m);
  }

  static bool accept(const Match& from, Match& to) {
    to = from;
    return true;
  }

  // tril(ones) of a square mask: query i sees keys up to i, which is causal attention because there are as many keys as
  // queries.
  bool is_lower_triangle(ValueId mask) const {
    const auto tril = match<ops::Tril>(graph_, mask);
    if (!tril || tril->diagonal != 0) return false;
    const Shape& s = shape(mask);
    return uniform_value(graph_, tril.input(0)) == 1 && s[s.rank() - 1] == s[s.rank() - 2];
  }

  bool match_scaled(ValueId scores, Match& m) const {
    if (match_product_of_q_and_k(scores, m)) return m.scale != 0;
    if (const auto quotient = sole<ops::Div>(scores))
      if (const auto divisor = uniform_value(graph_, quotient.input(1)); divisor && *divisor != 0) {
        m.scale /= *divisor;
        return match_product_of_q_and_k(quotient.input(0), m);
      }
    if (const auto product = sole<ops::Mul>(scores))
      for (const auto& [number, unscaled] : either_way(*product.node))
        if (const auto factor = uniform_value(graph_, number); factor && *factor != 0) {
          m.scale *= *factor;
          return match_product_of_q_and_k(unscaled, m);
        }
    return false;
  }

  // q k^T, where q and k may have been scaled before.
  bool match_product_of_q_and_k(ValueId scores, Match& m) const {
    const auto product = sole<ops::Matmul>(scores);
    if (!product || !product->is_plain() || product->transpose_a || product.num_inputs() > 2) return false;
    m.nodes.insert(m.nodes.begin(), product.node);
    m.q = without_factor(product.input(0), m);
    m.k = without_factor(product.input(1), m);
    if (product->transpose_b) return true;
    const auto swapped = sole<ops::Permute>(m.k);
    if (!swapped || swapped->axes != std::vector<int64_t>{0, 1, 3, 2}) return false;
    m.nodes.insert(m.nodes.begin(), swapped.node);
    m.k = swapped.input(0);
    return true;
  }

  ValueId without_factor(ValueId value, Match& m) const {
    const auto product = sole<ops::Mul>(value);
    if (!product) return value;
    for (const auto& [number, rest] : either_way(*product.node))
      if (const auto factor = uniform_value(graph_, number); factor && *factor != 0) {
        m.scale *= *factor;
        m.nodes.insert(m.nodes.begin(), product.node);
        return rest;
      }
    return value;
  }

  // Returns whether batch and heads agree, the mask broadcasts to the scores, and the op returns the type of the node.
  bool fits(const Match& m, const Node& node) const {
    const Shape &q = shape(m.q), &k = shape(m.k), &v = shape(m.v);
    if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return false;
    for (int axis = 0; axis < 2; ++axis)
      if (!(q[axis] == k[axis]) || !(q[axis] == v[axis])) return false;
    if (m.causal && m.mask) return false;
    const Shape scores{q[0], q[1], q[2], k[2]};
    if (m.mask && !(broadcast(shape(*m.mask), scores) == scores)) return false;
    return graph_.type(m.q).dtype == graph_.type(node.outputs[0]).dtype && is_float(graph_.type(m.q).dtype);
  }

  const Graph& graph_;
  const Uses uses_;
};

}  // namespace

Graph fuse_attention(const Graph& graph, const PassContext& context) {
  const AttentionFuser fuser(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return fuser.visit(rewriter, node); },
      context.target);
}

}  // namespace genesis::passes
