#include "passes/grouping/passes.h"

#include <numeric>

#include "passes/grouping/head_operands.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

// Elements [start, start + length) along the last axis of `whole`.
struct Part {
  ValueId whole;
  int64_t start = 0, length = 0;
};

std::optional<Part> part_of(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value);
  if (!node || !is<ops::Split, ops::Slice>(*node)) return std::nullopt;
  const int rank = graph.type(node->inputs[0]).shape.rank();
  const auto is_last = [&](int64_t axis) { return normalize_axis(axis, rank) == rank - 1; };
  if (const auto split = match<ops::Split>(*node); split && is_last(split->axis)) {
    const auto sizes = split->sizes.begin();
    const int32_t number = graph.value(value).index;
    return Part{split.input(0), std::accumulate(sizes, sizes + number, int64_t{0}), sizes[number]};
  }
  const auto slice = match<ops::Slice>(*node);
  if (!slice || !is_last(slice->axis) || slice->step != 1) return std::nullopt;
  if (!slice->start[0].is_constant() || !slice->length[0].is_constant()) return std::nullopt;
  return Part{slice.input(0), slice->start[0].value(), slice->length[0].value()};
}

// Returns the product of which q, k and v are consecutive slices, in this order; empty if there is none.
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
  return rewrite(graph, pack, context.target);
}

}  // namespace genesis::passes
