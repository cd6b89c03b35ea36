#include "schema/ops/reduce.h"

#include <algorithm>

#include "schema/gradient.h"
#include "schema/ops/layout.h"
#include "schema/ops/reshape.h"

namespace genesis {
namespace {

// Which axes a list names: sorted, without repeats; an empty list names all.
std::vector<int> normalize_axes(const Axes& axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) result.push_back(normalize_axis(axis, rank));
  if (axes.empty())
    for (int i = 0; i < rank; ++i) result.push_back(i);
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) fail("an axis is named twice");
  return result;
}

Shape reduced_shape(const Shape& shape, const Axes& axes, bool keep_dims) {
  const std::vector<int> reduced = normalize_axes(axes, shape.rank());
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool gone = std::binary_search(reduced.begin(), reduced.end(), i);
    if (!gone)
      result.push_back(shape[i]);
    else if (keep_dims)
      result.push_back(1);
  }
  return result;
}

// dy of a reduction, spread over the shape of its input.
Value spread(Value dy, const Shape& shape, const Axes& axes) {
  return expand(reshape(dy, reduced_shape(shape, axes, true)), shape);
}

}  // namespace

namespace ops {

std::vector<TensorType> Sum::infer(Types in) const {
  const DType dtype = is_float(in[0].dtype) ? in[0].dtype : DType::i64;
  return {{dtype, reduced_shape(in[0].shape, axes, keep_dims)}};
}

void Sum::grad(GradientContext& g) const { g.set(0, spread(g.dy(), g.input(0).shape(), axes)); }

}  // namespace ops

namespace {

constexpr OpDef kSum = make_op<ops::Sum>();
constexpr const OpDef* kOps[] = {&kSum};

}  // namespace

std::span<const OpDef* const> reduce_ops() { return kOps; }

Value sum(Value x, Axes axes, bool keep_dims) {
  return emit_node(kSum, to_attributes(ops::Sum{std::move(axes), keep_dims}), {x})[0];
}

Value sum_to(Value x, const Shape& shape) {
  const int extra = x.rank() - shape.rank();
  Axes axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i < extra || (shape[i - extra] == Dim(1) && !(x.shape()[i] == Dim(1)))) axes.push_back(i);
  return reshape(axes.empty() ? x : sum(x, axes, true), shape);
}

}  // namespace genesis
