#include "passes/fusion/fuse_attention.h"

#include <cmath>

#include "passes/core/analysis.h"
#include "passes/core/rewriter.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/layout.h"

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
    std::vector<const Node*> nodes;
  };

  const Node* sole(ValueId value, std::string_view op) const {
    return sole_producer(graph_, uses_, value, op);
  }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }

  bool match_product_with_v(const Node& node, Match& m) const {
    if (node.op->name() != "matmul" || shape(node.outputs[0]).rank() != 4) return false;
    const auto product = from_attributes<ops::Matmul>(node.attributes);
    if (product.transpose_a || product.transpose_b || node.inputs.size() > 2) return false;
    m.v = node.inputs[1];
    return match_weights(node.inputs[0], m) && fits(m, node);
  }

  bool match_weights(ValueId weights, Match& m) const {
    if (const Node* softmax = sole(weights, "softmax")) {
      const auto op = from_attributes<ops::Softmax>(softmax->attributes);
      if (normalize_axis(op.axis, 4) != 3) return false;
      m.nodes.push_back(softmax);
      return match_masked(softmax->inputs[0], m);
    }
    const Node* softmax = sole(weights, "causal_softmax");
    if (!softmax) return false;
    m.causal = true;
    m.scale = from_attributes<ops::CausalSoftmax>(softmax->attributes).scale;
    m.nodes.push_back(softmax);
    return match_scaled(softmax->inputs[0], m);
  }

  bool match_masked(ValueId scores, Match& m) const {
    if (const Node* sum = sole(scores, "add"))
      for (size_t i = 0; i < 2; ++i) {
        Match with_mask = m;
        with_mask.mask = sum->inputs[1 - i];
        if (is_float(graph_.type(*with_mask.mask).dtype) && match_scaled(sum->inputs[i], with_mask))
          return accept(with_mask, m);
      }
    if (const Node* where = sole(scores, "where")) {
      const auto fill = uniform_value(graph_, where->inputs[2]);
      if (!fill || !std::isinf(*fill) || *fill > 0) return false;
      m.causal = is_lower_triangle(where->inputs[0]);
      if (!m.causal) m.mask = where->inputs[0];
      return match_scaled(where->inputs[1], m);
    }
    return match_scaled(scores, m);
  }

  static bool accept(const Match& from, Match& to) {
    to = from;
    return true;
  }

  // tril(ones) of a square: query i sees keys up to i, which is causal where there are as many keys as
  // queries.
  bool is_lower_triangle(ValueId mask) const {
    const Node* tril = producer(graph_, mask, "tril");
    if (!tril || from_attributes<ops::Tril>(tril->attributes).diagonal != 0) return false;
    const Shape& s = shape(mask);
    return uniform_value(graph_, tril->inputs[0]) == 1 && s[s.rank() - 1] == s[s.rank() - 2];
  }

  bool match_scaled(ValueId scores, Match& m) const {
    if (match_product_of_q_and_k(scores, m)) return m.scale != 0;
    if (const Node* quotient = sole(scores, "div"))
      if (const auto divisor = uniform_value(graph_, quotient->inputs[1]); divisor && *divisor != 0) {
        m.scale /= *divisor;
        return match_product_of_q_and_k(quotient->inputs[0], m);
      }
    if (const Node* product = sole(scores, "mul"))
      for (size_t i = 0; i < 2; ++i)
        if (const auto factor = uniform_value(graph_, product->inputs[i]); factor && *factor != 0) {
          m.scale *= *factor;
          return match_product_of_q_and_k(product->inputs[1 - i], m);
        }
    return false;
  }

  bool match_product_of_q_and_k(ValueId scores, Match& m) const {
    const Node* node = sole(scores, "matmul");
    if (!node) return false;
    const auto product = from_attributes<ops::Matmul>(node->attributes);
    if (product.transpose_a || !product.transpose_b || node->inputs.size() > 2) return false;
    m.q = node->inputs[0];
    m.k = node->inputs[1];
    m.nodes.insert(m.nodes.begin(), node);
    return true;
  }

  // Batch and heads agree, the mask has at most their axes, and the op gives the type the node gave.
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
