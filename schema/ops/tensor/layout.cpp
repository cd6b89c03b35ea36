#include "schema/ops/tensor/layout.h"

#include <algorithm>

#include "schema/core/type_limits.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis {
namespace {

// Returns the axes as non-negative numbers in the given order. Throws Error if one is named twice.
std::vector<int64_t> distinct_axes(const std::vector<int64_t>& axes, int rank) {
  std::vector<int64_t> result;
  for (int64_t axis : axes) {
    const int at = normalize_axis(axis, rank);
    if (std::ranges::find(result, at) != result.end()) fail("axis {} is named twice", axis);
    result.push_back(at);
  }
  return result;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& axes) {
  std::vector<int64_t> result(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) result[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  return result;
}

bool is_identity(const std::vector<int64_t>& axes) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// Returns the sizes [outer, size of axis, inner] of x around `axis`.
Shape around(const Shape& shape, int axis) {
  Dim outer(1), inner(1);
  for (int i = 0; i < axis; ++i) outer = outer * shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner = inner * shape[i];
  return {outer, shape[axis], inner};
}

// Repeats x [outer, inner] to [outer, repeats, inner], then reshapes it to `shape`.
Value repeat_between(Value x, const Dim& outer, int64_t repeats, const Dim& inner, const Shape& shape) {
  return reshape(expand(reshape(x, {outer, 1, inner}), {outer, repeats, inner}), shape);
}

void check_repeats(int64_t repeats) {
  if (repeats < 0) fail("cannot repeat {} times", repeats);
}

}  // namespace

namespace ops {

std::vector<TensorType> Expand::infer(Types in) const {
  if (!(broadcast(in[0].shape, shape) == shape))
    fail("{} does not expand to {}", in[0].shape.to_string(), shape.to_string());
  return {{in[0].dtype, shape}};
}

void Expand::grad(GradientContext& g) const { g.set(0, g.dy()); }

// The result is a view if nothing is repeated.
std::optional<int64_t> Expand::view_offset(Types in) const {
  return in[0].shape.numel() == shape.numel() ? std::optional<int64_t>(0) : std::nullopt;
}

std::vector<TensorType> Permute::infer(Types in) const {
  const Shape& from = in[0].shape;
  const std::vector<int64_t> order = distinct_axes(axes, from.rank());
  if (order.size() != from.dims().size())
    fail("permute names {} axes of {}: it must name each of the {} once", order.size(), from.to_string(),
         from.rank());
  Shape shape;
  for (int64_t axis : order) shape.push_back(from[static_cast<int>(axis)]);
  return {{in[0].dtype, shape}};
}

void Permute::grad(GradientContext& g) const {
  g.set(0, permute(g.dy(), inverse(distinct_axes(axes, g.input(0).rank()))));
}

// The result is a view if only axes of size 1 change their place.
std::optional<int64_t> Permute::view_offset(Types in) const {
  int64_t last = -1;
  for (int64_t axis : distinct_axes(axes, in[0].shape.rank())) {
    if (in[0].shape[static_cast<int>(axis)] == Dim(1)) continue;
    if (axis < last) return std::nullopt;
    last = axis;
  }
  return 0;
}

std::vector<TensorType> Flip::infer(Types in) const {
  distinct_axes(axes, in[0].shape.rank());
  return {in[0]};
}

void Flip::grad(GradientContext& g) const { g.set(0, flip(g.dy(), axes)); }

std::vector<TensorType> Roll::infer(Types in) const {
  distinct_axes(axes, in[0].shape.rank());
  if (shifts.size() != axes.size())
    fail("roll was given {} shifts for {} axes: give one each", shifts.size(), axes.size());
  for (int64_t shift : shifts) check_amount(shift, "a shift of roll");
  return {in[0]};
}

void Roll::grad(GradientContext& g) const {
  std::vector<int64_t> back;
  for (int64_t shift : shifts) back.push_back(-shift);
  g.set(0, roll(g.dy(), back, axes));
}

std::vector<TensorType> Triangle::infer(Types in) const {
  if (in[0].shape.rank() < 2) fail("a triangle needs two axes at least, got {}", in[0].to_string());
  check_amount(diagonal, "the diagonal of a triangle");
  return {in[0]};
}

void Tril::grad(GradientContext& g) const { g.set(0, tril(g.dy(), diagonal)); }

void Triu::grad(GradientContext& g) const { g.set(0, triu(g.dy(), diagonal)); }

}  // namespace ops

std::span<const OpDef* const> layout_ops() {
  return kOpDefs<ops::Expand, ops::Permute, ops::Flip, ops::Roll, ops::Tril, ops::Triu>;
}

Value permute(Value x, std::vector<int64_t> axes) {
  for (int64_t& axis : axes) axis = normalize_axis(axis, x.rank());
  if (static_cast<int>(axes.size()) == x.rank() && is_identity(axes)) return x;
  return emit(ops::Permute{std::move(axes)}, {x});
}

Value transpose(Value x, int64_t axis_a, int64_t axis_b) {
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  std::swap(axes[static_cast<size_t>(normalize_axis(axis_a, x.rank()))],
            axes[static_cast<size_t>(normalize_axis(axis_b, x.rank()))]);
  return permute(x, std::move(axes));
}

Value expand(Value x, Shape shape) {
  if (shape == x.shape()) return x;
  return emit(ops::Expand{shape}, {x});
}

Value flip(Value x, std::vector<int64_t> axes) {
  if (axes.empty()) return x;
  for (int64_t& axis : axes) axis = normalize_axis(axis, x.rank());
  std::ranges::sort(axes);
  return emit(ops::Flip{std::move(axes)}, {x});
}

Value roll(Value x, std::vector<int64_t> shifts, std::vector<int64_t> axes) {
  if (axes.empty() && shifts.size() == 1)  // rolls the flattened tensor, as torch.roll does
    return reshape(roll(reshape(x, {x.shape().numel()}), std::move(shifts), {0}), x.shape());
  for (int64_t& axis : axes) axis = normalize_axis(axis, x.rank());
  return emit(ops::Roll{std::move(shifts), std::move(axes)}, {x});
}

// Repeats axis by axis from the last to the first; each repetition is an expansion between two axes.
Value tile(Value x, std::vector<int64_t> repeats) {
  while (static_cast<int>(repeats.size()) < x.rank()) repeats.insert(repeats.begin(), 1);
  while (x.rank() < static_cast<int>(repeats.size())) x = unsqueeze(x, 0);
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    const int64_t times = repeats[static_cast<size_t>(axis)];
    check_repeats(times);
    if (times == 1) continue;
    const Shape sizes = around(x.shape(), axis);
    Shape shape = x.shape();
    shape[axis] = shape[axis] * Dim(times);
    x = repeat_between(x, sizes[0], times, sizes[1] * sizes[2], shape);
  }
  return x;
}

Value repeat_interleave(Value x, int64_t repeats, int64_t axis) {
  check_repeats(repeats);
  const int at = normalize_axis(axis, x.rank());
  if (repeats == 1) return x;
  const Shape sizes = around(x.shape(), at);
  Shape shape = x.shape();
  shape[at] = shape[at] * Dim(repeats);
  return repeat_between(x, sizes[0] * sizes[1], repeats, sizes[2], shape);
}

Value tril(Value x, int64_t diagonal) { return emit(ops::Tril{{diagonal}}, {x}); }

Value triu(Value x, int64_t diagonal) { return emit(ops::Triu{{diagonal}}, {x}); }

}  // namespace genesis
