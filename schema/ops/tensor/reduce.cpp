#include "schema/ops/tensor/reduce.h"

#include <algorithm>

#include "schema/core/type_limits.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {

std::vector<int> normalize_axes(const Axes& axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) result.push_back(normalize_axis(axis, rank));
  if (axes.empty())
    for (int i = 0; i < rank; ++i) result.push_back(i);
  std::ranges::sort(result);
  if (std::ranges::adjacent_find(result) != result.end()) fail("an axis is named twice");
  return result;
}

namespace {

Shape reduced_shape(const Shape& shape, const Axes& axes, bool keep_dims) {
  const std::vector<int> reduced = normalize_axes(axes, shape.rank());
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool gone = std::ranges::binary_search(reduced, i);
    if (!gone)
      result.push_back(shape[i]);
    else if (keep_dims)
      result.push_back(1);
  }
  return result;
}

Dim reduced_count(const Shape& shape, const Axes& axes) {
  Dim count(1);
  for (int axis : normalize_axes(axes, shape.rank())) count = count * shape[axis];
  return count;
}

std::vector<TensorType> reduced(const TensorType& x, const ops::OverAxes& op, DType dtype) {
  return {{dtype, reduced_shape(x.shape, op.axes, op.keep_dims)}};
}

void check_real(const TensorType& x, std::string_view op) {
  if (!is_float(x.dtype)) fail("{} takes real numbers, got {}: cast them first", op, x.to_string());
}

void check_not_empty(const TensorType& x, const Dim& count, std::string_view op) {
  if (count == Dim(0)) fail("{} over no elements of {} is not defined", op, x.to_string());
}

DType sum_dtype(DType dtype) { return is_float(dtype) ? dtype : DType::i64; }

// Returns the result of a reduction with the reduced axes restored as size 1.
Value kept(Value y, const Shape& shape, const Axes& axes) {
  return reshape(y, reduced_shape(shape, axes, true));
}

// Returns dy of a reduction, broadcast to the shape of its input.
Value spread(Value dy, const Shape& shape, const Axes& axes) { return expand(kept(dy, shape, axes), shape); }

// Casts low precision to f32 before a division by a count, because a low-precision type cannot hold large counts.
Value widened(Value x) { return is_low_precision(x.dtype()) ? cast(x, DType::f32) : x; }

Value count_like(Value like, const Dim& count) {
  if (count.is_constant()) return scalar_like(like, static_cast<double>(count.value()));
  return dim_value(*like.graph, count, like.dtype());
}

// Shares dy evenly among the elements that equal the result.
void grad_of_extreme(GradientContext& g, const Axes& axes) {
  const Value x = g.input(0), dy = kept(g.dy(), x.shape(), axes);
  const Value chosen = eq(x, kept(g.output(), x.shape(), axes));
  const Value share = dy / cast(sum(chosen, axes, true), x.dtype());
  g.set(0, cast(chosen, x.dtype()) * share);
}

// Returns the axes in the form in which every reduction writes them, so that equal reductions have equal attributes.
ops::OverAxes over(Value x, const Axes& axes, bool keep_dims) {
  const std::vector<int> sorted = normalize_axes(axes, x.rank());
  return {Axes(sorted.begin(), sorted.end()), keep_dims};
}

template <class Op>
Value reduce(Value x, const Axes& axes, bool keep_dims) {
  return emit(Op{over(x, axes, keep_dims)}, {x});
}

template <class Op>
Value reduce_axis(Value x, int64_t axis, bool keep_dims) {
  const int at = normalize_axis(axis, std::max(x.rank(), 1));
  return emit(Op{{at, keep_dims}}, {x});
}

}  // namespace

namespace ops {

std::vector<TensorType> Sum::infer(Types in) const { return reduced(in[0], *this, sum_dtype(in[0].dtype)); }

void Sum::grad(GradientContext& g) const { g.set(0, spread(g.dy(), g.input(0).shape(), axes)); }

std::vector<TensorType> Mean::infer(Types in) const {
  check_real(in[0], "mean");
  return reduced(in[0], *this, in[0].dtype);
}

void Mean::grad(GradientContext& g) const {
  const Shape shape = g.input(0).shape();
  const Value dy = widened(g.dy());
  const Value share = cast(dy / count_like(dy, reduced_count(shape, axes)), g.dy().dtype());
  g.set(0, spread(share, shape, axes));
}

std::vector<TensorType> Prod::infer(Types in) const { return reduced(in[0], *this, sum_dtype(in[0].dtype)); }

// dx is the product of the other elements: product / x without zeros. With exactly one zero, only that zero gets a gradient, the
// product of the rest; with more zeros, all gradients are 0.
void Prod::grad(GradientContext& g) const {
  const Value x = g.input(0), dy = kept(g.dy(), x.shape(), axes);
  const Value zero = eq(x, scalar_like(x, 0.0));
  const Value zeros = sum(zero, axes, true);
  const Value rest = where(zero, scalar_like(x, 1.0), x);
  const Value product = prod(rest, axes, true) * dy;
  const Value none = scalar_like(x, 0.0);
  const Value with_zeros = where(logical_and(zero, eq(zeros, scalar_like(zeros, 1))), product, none);
  g.set(0, where(eq(zeros, scalar_like(zeros, 0)), product / rest, with_zeros));
}

std::vector<TensorType> Max::infer(Types in) const {
  check_not_empty(in[0], reduced_count(in[0].shape, axes), "max");
  return reduced(in[0], *this, in[0].dtype);
}

void Max::grad(GradientContext& g) const { grad_of_extreme(g, axes); }

std::vector<TensorType> Min::infer(Types in) const {
  check_not_empty(in[0], reduced_count(in[0].shape, axes), "min");
  return reduced(in[0], *this, in[0].dtype);
}

void Min::grad(GradientContext& g) const { grad_of_extreme(g, axes); }

std::vector<TensorType> Any::infer(Types in) const { return reduced(in[0], *this, DType::boolean); }

std::vector<TensorType> All::infer(Types in) const { return reduced(in[0], *this, DType::boolean); }

std::vector<TensorType> LogSumExp::infer(Types in) const {
  check_real(in[0], "logsumexp");
  return reduced(in[0], *this, in[0].dtype);
}

// dx = dy * exp(x - y). A row that contains only -inf gets zeros.
void LogSumExp::grad(GradientContext& g) const {
  const Shape shape = g.input(0).shape();
  const Value x = widened(g.input(0)), y = widened(kept(g.output(), shape, axes));
  const Value finite =
      where(eq(y, scalar_like(y, -std::numeric_limits<double>::infinity())), scalar_like(y, 0.0), y);
  g.set(0, widened(kept(g.dy(), shape, axes)) * exp(x - finite));
}

std::vector<TensorType> Var::infer(Types in) const {
  check_real(in[0], "var");
  check_amount(correction, "the correction of var");
  return reduced(in[0], *this, in[0].dtype);
}

// dx = dy * 2 (x - mean) / (n - correction)
void Var::grad(GradientContext& g) const {
  const Value x = widened(g.input(0)), dy = widened(kept(g.dy(), x.shape(), axes));
  const Value n = count_like(dy, reduced_count(x.shape(), axes) - Dim(correction));
  g.set(0, (x - mean(x, axes, true)) * (dy * 2.0 / n));
}

std::vector<TensorType> Std::infer(Types in) const {
  check_real(in[0], "std");
  check_amount(correction, "the correction of std");
  return reduced(in[0], *this, in[0].dtype);
}

// dx = dy * (x - mean) / ((n - correction) std), and 0 if std is 0.
void Std::grad(GradientContext& g) const {
  const Value x = widened(g.input(0)), dy = widened(kept(g.dy(), x.shape(), axes));
  const Value y = widened(kept(g.output(), x.shape(), axes));
  const Value n = count_like(dy, reduced_count(x.shape(), axes) - Dim(correction));
  const Value zero = scalar_like(y, 0.0);
  g.set(0, (x - mean(x, axes, true)) * where(eq(y, zero), zero, dy / (n * y)));
}

std::vector<TensorType> infer_arg(const OneAxis& op, const TensorType& x, std::string_view name) {
  if (x.shape.rank() == 0) return {{DType::i64, {}}};
  const int axis = normalize_axis(op.axis, x.shape.rank());
  check_not_empty(x, x.shape[axis], name);
  return {{DType::i64, reduced_shape(x.shape, {axis}, op.keep_dims)}};
}

std::vector<TensorType> ArgMax::infer(Types in) const { return infer_arg(*this, in[0], "argmax"); }

std::vector<TensorType> ArgMin::infer(Types in) const { return infer_arg(*this, in[0], "argmin"); }

std::vector<TensorType> CumSum::infer(Types in) const {
  normalize_axis(axis, std::max(in[0].shape.rank(), 1));  // a scalar counts as one element
  return {{sum_dtype(in[0].dtype), in[0].shape}};
}

void CumSum::grad(GradientContext& g) const { g.set(0, cumsum(g.dy(), axis, !reverse)); }

}  // namespace ops

std::span<const OpDef* const> reduce_ops() {
  return kOpDefs<ops::Sum, ops::Mean, ops::Prod, ops::Max, ops::Min, ops::Any, ops::All, ops::LogSumExp,
                 ops::Var, ops::Std, ops::ArgMax, ops::ArgMin, ops::CumSum>;
}

Value sum(Value x, const AxisList& axes, bool keep_dims) { return reduce<ops::Sum>(x, axes.axes, keep_dims); }

Value mean(Value x, const AxisList& axes, bool keep_dims) {
  return reduce<ops::Mean>(x, axes.axes, keep_dims);
}

Value prod(Value x, const AxisList& axes, bool keep_dims) {
  return reduce<ops::Prod>(x, axes.axes, keep_dims);
}

Value max(Value x, const AxisList& axes, bool keep_dims) { return reduce<ops::Max>(x, axes.axes, keep_dims); }

Value min(Value x, const AxisList& axes, bool keep_dims) { return reduce<ops::Min>(x, axes.axes, keep_dims); }

Value any(Value x, const AxisList& axes, bool keep_dims) { return reduce<ops::Any>(x, axes.axes, keep_dims); }

Value all(Value x, const AxisList& axes, bool keep_dims) { return reduce<ops::All>(x, axes.axes, keep_dims); }

Value logsumexp(Value x, const AxisList& axes, bool keep_dims) {
  const Value real = is_float(x.dtype()) ? x : cast(x, DType::f32);
  return reduce<ops::LogSumExp>(real, axes.axes, keep_dims);
}

Value var(Value x, const AxisList& axes, int64_t correction, bool keep_dims) {
  const ops::Var op{{over(x, axes.axes, keep_dims), correction}};
  return emit(op, {x});
}

Value stddev(Value x, const AxisList& axes, int64_t correction, bool keep_dims) {
  const ops::Std op{{over(x, axes.axes, keep_dims), correction}};
  return emit(op, {x});
}

Value argmax(Value x, int64_t axis, bool keep_dims) { return reduce_axis<ops::ArgMax>(x, axis, keep_dims); }

Value argmin(Value x, int64_t axis, bool keep_dims) { return reduce_axis<ops::ArgMin>(x, axis, keep_dims); }

Value cumsum(Value x, int64_t axis, bool reverse) {
  const int at = normalize_axis(axis, std::max(x.rank(), 1));
  return emit(ops::CumSum{at, reverse}, {x});
}

Value sum_to(Value x, const Shape& shape) {
  const int extra = x.rank() - shape.rank();
  Axes axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i < extra || (shape[i - extra] == Dim(1) && !(x.shape()[i] == Dim(1)))) axes.push_back(i);
  return reshape(axes.empty() ? x : sum(x, axes, true), shape);
}

}  // namespace genesis
