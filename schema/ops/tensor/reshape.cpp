#include "schema/ops/tensor/reshape.h"

#include "schema/ops/gradient.h"

namespace genesis {
namespace {

// Replaces the only -1 in `shape` by the size that the number of elements implies.
Shape resolve(const Shape& from, Shape shape) {
  int unknown = -1;
  Dim known(1);
  for (int i = 0; i < shape.rank(); ++i) {
    if (!(shape[i] == Dim(-1)))
      known = known * shape[i];
    else if (unknown >= 0)
      fail("reshape to {} leaves two sizes open: only one may be -1", shape.to_string());
    else
      unknown = i;
  }
  if (unknown < 0) return shape;
  const auto rest = from.numel().divide_exact(known);
  if (!rest)
    fail("cannot reshape {} to {}: {} elements are not a multiple of {}", from.to_string(), shape.to_string(),
         from.numel().to_string(), known.to_string());
  shape[unknown] = *rest;
  return shape;
}

}  // namespace

namespace ops {

std::vector<TensorType> Reshape::infer(Types in) const {
  if (!(in[0].shape.numel() == shape.numel()))
    fail("cannot reshape {} to {}: {} elements against {}", in[0].shape.to_string(), shape.to_string(),
         in[0].shape.numel().to_string(), shape.numel().to_string());
  return {{in[0].dtype, shape}};
}

void Reshape::grad(GradientContext& g) const { g.set(0, reshape(g.dy(), g.input(0).shape())); }

std::optional<int64_t> Reshape::view_offset(Types) const { return 0; }

}  // namespace ops

std::span<const OpDef* const> reshape_ops() { return kOpDefs<ops::Reshape>; }

Value reshape(Value x, Shape shape) {
  shape = resolve(x.shape(), std::move(shape));
  if (shape == x.shape()) return x;
  return emit(ops::Reshape{shape}, {x});
}

Value flatten(Value x, int64_t start_axis, int64_t end_axis) {
  if (x.rank() == 0) return reshape(x, {1});
  const int start = normalize_axis(start_axis, x.rank()), end = normalize_axis(end_axis, x.rank());
  if (start > end) fail("flatten from axis {} to axis {}: the start is after the end", start_axis, end_axis);
  Shape shape;
  for (int i = 0; i < start; ++i) shape.push_back(x.shape()[i]);
  Dim merged(1);
  for (int i = start; i <= end; ++i) merged = merged * x.shape()[i];
  shape.push_back(merged);
  for (int i = end + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Value squeeze(Value x, int64_t axis) {
  const int at = normalize_axis(axis, x.rank());
  if (!(x.shape()[at] == Dim(1))) return x;
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (i != at) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Value unsqueeze(Value x, int64_t axis) {
  const int at = normalize_axis(axis, x.rank() + 1);
  std::vector<Dim> dims = x.shape().dims();
  dims.insert(dims.begin() + at, Dim(1));
  return reshape(x, Shape(dims));
}

}  // namespace genesis
