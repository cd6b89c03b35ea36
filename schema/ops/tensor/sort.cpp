#include "schema/ops/tensor/sort.h"

#include <algorithm>

#include "schema/ops/create.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/index.h"

namespace genesis {
namespace {

// Returns the axis counted from 0; a scalar has one axis here, as in PyTorch. Throws Error if x has no such axis.
int axis_of(const TensorType& x, int64_t axis) { return normalize_axis(axis, std::max(x.shape.rank(), 1)); }

// Sends the gradient of each value back to the element that it came from, whose index is in output 1. Indices have no gradient.
void grad_of_order(GradientContext& g, int64_t axis) {
  if (!g.dy(0)) return;
  if (g.input(0).rank() == 0) return g.set(0, g.dy(0));
  g.set(0, scatter(zeros_like(g.input(0)), axis, g.output(1), g.dy(0)));
}

}  // namespace

namespace ops {

std::vector<TensorType> Sort::infer(Types in) const {
  axis_of(in[0], axis);  // checks the axis
  return {in[0], {DType::i64, in[0].shape}};
}

void Sort::grad(GradientContext& g) const { grad_of_order(g, axis); }

std::vector<TensorType> TopK::infer(Types in) const {
  Shape shape = in[0].shape;
  const int at = axis_of(in[0], axis);
  const Dim size = shape.rank() == 0 ? Dim(1) : shape[at];
  // The result of a scalar always has its one element, so k = 0 cannot be requested.
  const int64_t least = shape.rank() == 0 ? 1 : 0;
  if (k < least || (size.is_constant() && k > size.value()))
    fail("topk wants {} elements of axis {} of {}", k, at, in[0].to_string());
  if (shape.rank() > 0) shape[at] = k;
  return {{in[0].dtype, shape}, {DType::i64, shape}};
}

void TopK::grad(GradientContext& g) const { grad_of_order(g, axis); }

}  // namespace ops

std::span<const OpDef* const> sort_ops() { return kOpDefs<ops::Sort, ops::TopK>; }

ValuesAndIndices topk(Value x, int64_t k, int64_t axis, bool largest) {
  const auto out = emit_node(ops::TopK{k, axis_of(x.type(), axis), largest}, {x});
  return {out[0], out[1]};
}

ValuesAndIndices sort(Value x, int64_t axis, bool descending) {
  const auto out = emit_node(ops::Sort{axis_of(x.type(), axis), descending}, {x});
  return {out[0], out[1]};
}

Value argsort(Value x, int64_t axis, bool descending) { return sort(x, axis, descending).indices; }

}  // namespace genesis
