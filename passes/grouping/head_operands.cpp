#include "passes/grouping/head_operands.h"

#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

const Shape& shape_of(const Graph& graph, ValueId value) { return graph.type(value).shape; }

// Returns whether `reshape` only splits the last axis in two.
bool cuts_into_heads(const Graph& graph, const Node& reshape) {
  const Shape &rows = shape_of(graph, reshape.inputs[0]), &heads = shape_of(graph, reshape.outputs[0]);
  if (rows.rank() == 0 || heads.rank() != 4 || !heads[2].is_constant() || !heads[3].is_constant())
    return false;
  return rows[rows.rank() - 1] == heads[2] * heads[3];
}

std::optional<HeadOperand> match_operand(const Graph& graph, const Uses& uses, ValueId value) {
  HeadOperand operand;
  operand.rope = match_sole<ops::Rope>(graph, uses, value);
  if (operand.rope) {
    if (operand.rope->heads != 0) return std::nullopt;
    value = operand.rope.input(0);
  }
  operand.reshape = match_sole<ops::Reshape>(graph, uses, value).node;
  if (!operand.reshape || !cuts_into_heads(graph, *operand.reshape)) return std::nullopt;
  operand.rows = operand.reshape->inputs[0];
  return operand;
}

bool rotated_alike(const HeadOperand& a, const HeadOperand& b) {
  if (!a.rope || !b.rope) return !a.rope && !b.rope;
  const auto &of_a = a.rope.node->inputs, &of_b = b.rope.node->inputs;  // x, positions [, frequencies]
  return a.rope.node->attributes == b.rope.node->attributes &&
         std::equal(of_a.begin() + 1, of_a.end(), of_b.begin() + 1, of_b.end());
}

// Returns whether batch, time and head size agree: only the number of heads may differ.
bool stand_in_one_row(const Shape& q, const Shape& k) { return q[0] == k[0] && q[1] == k[1] && q[3] == k[3]; }

}  // namespace

std::optional<HeadOperands> match_head_operands(const Graph& graph, const Uses& uses, const Node& attention) {
  const auto op = match<ops::Attention>(attention);
  if (!op || op->packed() || op->layout != AttentionLayout::kBTHD) return std::nullopt;
  const Shape &q_shape = shape_of(graph, attention.inputs[0]),
              &k_shape = shape_of(graph, attention.inputs[1]),
              &v_shape = shape_of(graph, attention.inputs[2]);
  if (!stand_in_one_row(q_shape, k_shape) || !stand_in_one_row(q_shape, v_shape)) return std::nullopt;
  const auto q = match_operand(graph, uses, attention.inputs[0]),
             k = match_operand(graph, uses, attention.inputs[1]),
             v = match_operand(graph, uses, attention.inputs[2]);
  if (!q || !k || !v || v->rope || !rotated_alike(*q, *k)) return std::nullopt;
  return HeadOperands{*q, *k, *v};
}

Value attend_packed(Rewriter& rewriter, const Node& attention, const HeadOperands& operands, Value rows) {
  const Shape& q = shape_of(rewriter.old(), attention.inputs[0]);
  const Dim heads = q[2], key_heads = shape_of(rewriter.old(), attention.inputs[1])[2];
  rewriter.from_nodes({operands.q.reshape, operands.k.reshape, operands.v.reshape});
  Value packed = reshape(rows, {q[0], q[1], heads + key_heads * Dim(2), q[3]});
  if (const auto& rope = operands.q.rope) {
    rewriter.from_nodes({rope.node, operands.k.rope.node});
    ops::Rope rotate = rope.attributes;
    rotate.heads = (heads + key_heads).value();
    std::vector<Value> inputs = {packed};
    for (size_t i = 1; i < rope.node->inputs.size(); ++i)
      inputs.push_back(rewriter.map(rope.node->inputs[i]));
    packed = emit_node(*rope.node->op, to_attributes(rotate), inputs)[0];
  }
  rewriter.from_nodes({&attention});
  auto op = from_attributes<ops::Attention>(attention.attributes);
  op.packed_key_heads = key_heads.value();
  std::vector<Value> inputs = {packed};
  for (size_t i = 3; i < attention.inputs.size(); ++i) inputs.push_back(rewriter.map(attention.inputs[i]));
  return emit_node(*attention.op, to_attributes(op), inputs)[0];
}

}  // namespace genesis::passes
