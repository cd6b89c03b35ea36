// Absorbs transposes into ops that read transposed operands at no cost: flags of matmul, layout of attention.
#include <algorithm>

#include "passes/core/analysis.h"
#include "passes/simplify/simplify.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// For x = permute(y) that moves y's last axis to the second to last place: returns x with its last two axes swapped, which
// keeps the rows of y contiguous, or y itself. Empty for any other x.
Value without_transpose(Value x) {
  const auto moved = match<ops::Permute>(*x.graph, x.id);
  const int rank = x.rank();
  if (!moved || rank < 2) return {};
  std::vector<int64_t> axes = moved->axes;
  for (int64_t& axis : axes) axis = normalize_axis(axis, rank);
  if (axes[static_cast<size_t>(rank) - 2] != rank - 1) return {};
  std::swap(axes[static_cast<size_t>(rank) - 1], axes[static_cast<size_t>(rank) - 2]);
  const Value y = x.graph->handle(moved.input(0));
  return std::ranges::is_sorted(axes) ? y : permute(y, axes);
}

// matmul(a^T, b) -> matmul(a, b, transpose_a), likewise for b; also if the transpose is part of a larger permute
Value transpose_into_matmul(const Candidate& c) {
  if (!is<ops::Matmul>(c.op)) return {};
  auto op = from_attributes<ops::Matmul>(c.attributes);
  if (!op.is_plain()) return {};
  std::vector<Value> operands = c.inputs;
  bool* const flags[] = {&op.transpose_a, &op.transpose_b};
  bool found = false;
  for (size_t i = 0; i < 2; ++i) {
    if (operands[0].rank() < 2 || operands[1].rank() < 2) return {};
    const Value x = without_transpose(operands[i]);
    if (!x) continue;
    operands[i] = x;
    *flags[i] = !*flags[i];
    found = true;
  }
  return found ? c.graph.add_node(c.op, to_attributes(op), operands)[0] : Value();
}

const std::vector<int64_t> kSwapTimeAndHeads = {0, 2, 1, 3};

Value under_heads_permute(Value x) {
  const auto moved = match<ops::Permute>(*x.graph, x.id);
  return moved && moved->axes == kSwapTimeAndHeads ? x.graph->handle(moved.input(0)) : Value();
}

// attention(permute(q), permute(k), permute(v)) in layout [batch, heads, time, size] -> permute(attention(q, k, v)) in layout
// [batch, time, heads, size]; models apply the inverse permute next, so the two cancel
Value permute_into_attention(const Candidate& c) {
  if (!is<ops::Attention>(c.op)) return {};
  auto op = from_attributes<ops::Attention>(c.attributes);
  if (op.layout != AttentionLayout::kBHTD || op.with_lse) return {};
  std::vector<Value> operands = c.inputs;
  for (size_t i = 0; i < 3; ++i) {
    operands[i] = under_heads_permute(operands[i]);
    if (!operands[i]) return {};
  }
  op.layout = AttentionLayout::kBTHD;
  return permute(c.graph.add_node(c.op, to_attributes(op), operands)[0], kSwapTimeAndHeads);
}

// Returns the value in front of a reshape that joins the batch axes of x to one; empty if `x` is made otherwise. Repeated heads have an
// axis more there.
Value before_joined_batch(Value x, const Shape& batch) {
  const Value y = under<ops::Reshape>(x);
  const int rank = batch.rank();
  if (!y || x.rank() != 3 || y.rank() < rank || !(y.dim(-1) == x.dim(-1)) || !(y.dim(-2) == x.dim(-2)))
    return {};
  Dim count = 1;
  for (int axis = 0; axis < rank - 2; ++axis) count = count * batch[axis];
  return count == x.dim(0) ? y : Value();
}

Value with_batch(Value x, const Shape& batch) {
  Shape shape = batch;
  for (const int axis : {-2, -1}) shape[batch.rank() + axis] = x.dim(axis);
  return x.shape() == shape ? x : reshape(x, shape);
}

// reshape(matmul(reshape(a), reshape(b))) -> matmul(a, b), where the reshapes join the batch axes to one and part them again: torch has
// products with one batch axis only
Value batch_into_matmul(const Candidate& c) {
  const Shape& shape = c.type.shape;
  if (!is<ops::Reshape>(c.op) || shape.rank() < 4) return {};
  const auto product = match<ops::Matmul>(c.graph, c.inputs[0].id);
  if (!product || !product->is_plain() || product.num_inputs() != 2 || c.inputs[0].rank() != 3) return {};
  if (!(shape[shape.rank() - 1] == c.inputs[0].dim(-1)) || !(shape[shape.rank() - 2] == c.inputs[0].dim(-2)))
    return {};
  const Value a = before_joined_batch(c.graph.handle(product.input(0)), shape);
  const Value b = before_joined_batch(c.graph.handle(product.input(1)), shape);
  if (!a || !b) return {};
  return c.graph.add_node(*product.node->op, product.node->attributes,
                          {with_batch(a, shape), with_batch(b, shape)})[0];
}

constexpr SimplifyRule kRules[] = {
    {"batch_into_matmul", batch_into_matmul},
    {"transpose_into_matmul", transpose_into_matmul},
    {"permute_into_attention", permute_into_attention},
};

}  // namespace

std::span<const SimplifyRule> product_rules() { return kRules; }

}  // namespace genesis::passes
