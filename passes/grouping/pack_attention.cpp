#include "passes/grouping/pack_attention.h"

#include "passes/grouping/head_operands.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// Elements [start, start + length) along the last axis of `whole`.
struct Part {
  ValueId whole;
  int64_t start = 0, length = 0;
};

std::optional<Part> part_of_split(const Graph& graph, const Node& node, ValueId value) {
  const auto split = from_attributes<ops::Split>(node.attributes);
  Part part{node.inputs[0]};
  const auto number = static_cast<size_t>(graph.value(value).index);
  for (size_t i = 0; i < number; ++i) part.start += split.sizes[i];
  part.length = split.sizes[number];
  const int rank = graph.type(part.whole).shape.rank();
  return normalize_axis(split.axis, rank) == rank - 1 ? std::optional(part) : std::nullopt;
}

std::optional<Part> part_of_slice(const Graph& graph, const Node& node) {
  const auto slice = from_attributes<ops::Slice>(node.attributes);
  const int rank = graph.type(node.inputs[0]).shape.rank();
  const bool last = normalize_axis(slice.axis, rank) == rank - 1;
  if (!last || slice.step != 1 || !slice.start[0].is_constant() || !slice.length[0].is_constant())
    return std::nullopt;
  return Part{node.inputs[0], slice.start[0].value(), slice.length[0].value()};
}

std::optional<Part> part_of(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  if (node && node->op->name() == "split") return part_of_split(graph, *node, value);
  if (node && node->op->name() == "slice") return part_of_slice(graph, *node);
  return std::nullopt;
}

// The product that q, k and v are all of, in this order.
std::optional<ValueId> common_rows(const Graph& graph, const HeadOperands& x) {
  const auto q = part_of(graph, x.q.rows), k = part_of(graph, x.k.rows), v = part_of(graph, x.v.rows);
  if (!q || !k || !v || q->whole != k->whole || q->whole != v->whole) return std::nullopt;
  const Shape& whole = graph.type(q->whole).shape;
  const bool side_by_side = q->start == 0 && k->start == q->length && v->start == k->start + k->length &&
                            whole[whole.rank() - 1] == Dim(v->start + v->length);
  return side_by_side ? std::optional(q->whole) : std::nullopt;
}

Replacement pack(Rewriter& rewriter, const Uses& uses, const Node& node) {
  const Graph& graph = rewriter.old();
  const auto operands = match_head_operands(graph, uses, node);
  if (!operands) return std::nullopt;
  const auto rows = common_rows(graph, *operands);
  if (!rows) return std::nullopt;
  return {{attend_packed(rewriter, node, *operands, rewriter.map(*rows))}};
}

}  // namespace

Graph pack_attention(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return pack(rewriter, uses, node); },
      context.target);
}

}  // namespace genesis::passes
