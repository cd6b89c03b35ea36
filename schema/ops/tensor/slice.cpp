#include "schema/ops/tensor/slice.h"

#include <algorithm>

#include "schema/core/type_limits.h"
#include "schema/ops/create.h"
#include "schema/ops/gradient.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice_rules.h"

namespace genesis {
namespace {

std::vector<int64_t> negated(std::vector<int64_t> amounts) {
  for (int64_t& amount : amounts) amount = -amount;
  return amounts;
}

Value strided(Value x, int axis, const Dim& start, const Dim& length, int64_t step) {
  if (start == Dim(0) && step == 1 && length == x.shape()[axis]) return x;
  return emit(ops::Slice{axis, {start}, {length}, step}, {x});
}

// Follows Python's rules for a known size.
Value slice_known(Value x, int axis, int64_t size, int64_t start, int64_t end, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const int64_t first = clamp(start), last = end == kToEnd ? (step > 0 ? size : -1) : clamp(end);
  const int64_t span = step > 0 ? last - first : first - last, stride = step > 0 ? step : -step;
  const int64_t length = span <= 0 ? 0 : (span - 1) / stride + 1;
  return strided(x, axis, length == 0 ? 0 : first, length, step);
}

// Slices an axis of symbolic size. The bounds cannot be clamped; they are checked when the size is known.
Value slice_symbolic(Value x, int axis, const Dim& size, int64_t start, int64_t end, int64_t step) {
  const auto place = [&](int64_t at) { return at < 0 ? size + Dim(at) : Dim(at); };
  const Dim first = step < 0 && start == kToEnd ? size - Dim(1) : place(start);
  const Dim last = end == kToEnd ? (step > 0 ? size : Dim(-1)) : place(end);
  const Dim length = step > 0 ? Dim::ceil_div(last - first, step) : Dim::ceil_div(first - last, -step);
  return strided(x, axis, first, length, step);
}

// Pads with `before` elements in front and `after` behind along `axis`, taken from x itself.
Value pad_from_itself(Value x, int axis, int64_t before, int64_t after, PadMode mode) {
  if (before < 0 || after < 0)
    fail("only constant padding takes negative amounts, got {} and {}", before, after);
  const Dim& size = x.shape()[axis];
  const auto edge = [&](const Dim& at, int64_t times) {
    Shape shape = x.shape();
    shape[axis] = times;
    return expand(narrow(x, axis, at, 1), shape);
  };
  const auto mirror = [&](const Dim& start, int64_t length) {
    return flip(narrow(x, axis, start, length), {axis});
  };
  std::vector<Value> parts;
  if (before > 0 && mode == PadMode::kReplicate) parts.push_back(edge(0, before));
  if (before > 0 && mode == PadMode::kReflect) parts.push_back(mirror(1, before));
  if (before > 0 && mode == PadMode::kCircular) parts.push_back(narrow(x, axis, size - Dim(before), before));
  parts.push_back(x);
  if (after > 0 && mode == PadMode::kReplicate) parts.push_back(edge(size - Dim(1), after));
  if (after > 0 && mode == PadMode::kReflect) parts.push_back(mirror(size - Dim(after + 1), after));
  if (after > 0 && mode == PadMode::kCircular) parts.push_back(narrow(x, axis, 0, after));
  return parts.size() == 1 ? x : concat(parts, axis);
}

}  // namespace

namespace ops {

std::vector<TensorType> Slice::infer(Types in) const {
  Shape shape = in[0].shape;
  const int at = normalize_axis(axis, shape.rank());
  check_slice(only_size(start, "start"), only_size(length, "length"), step, shape[at]);
  shape[at] = length[0];
  return {{in[0].dtype, shape}};
}

std::optional<int64_t> Slice::view_offset(Types in) const {
  const Shape& shape = in[0].shape;
  const int at = normalize_axis(axis, shape.rank());
  if (step != 1 && !(length[0] == Dim(1))) return std::nullopt;
  Dim inner(1);
  for (int i = 0; i < at; ++i)
    if (!(shape[i] == Dim(1))) return std::nullopt;
  for (int i = at + 1; i < shape.rank(); ++i) inner = inner * shape[i];
  const Dim offset = start[0] * inner;
  if (!offset.is_constant()) return std::nullopt;
  return checked_mul(offset.value(), static_cast<int64_t>(size_of(in[0].dtype)));
}

std::vector<TensorType> Unslice::infer(Types in) const {
  Shape shape = in[0].shape;
  const int at = normalize_axis(axis, shape.rank());
  check_slice(only_size(start, "start"), shape[at], step, only_size(size, "size"));
  shape[at] = size[0];
  return {{in[0].dtype, shape}};
}

std::vector<TensorType> Concat::infer(Types in) const {
  check_same_dtypes(in, "concat");
  Shape shape = in[0].shape;
  const int at = normalize_axis(axis, shape.rank());
  for (const TensorType& type : in.subspan(1)) {
    Shape expected = type.shape;
    if (expected.rank() == shape.rank()) expected[at] = shape[at];
    if (!(expected == shape))
      fail("concat along axis {} takes shapes that differ there only, got {} and {}", at,
           in[0].shape.to_string(), type.shape.to_string());
    shape[at] = shape[at] + type.shape[at];
  }
  return {{in[0].dtype, shape}};
}

void Concat::grad(GradientContext& g) const {
  Dim start(0);
  for (int i = 0; i < g.num_inputs(); ++i) {
    const Dim length = g.input(i).dim(axis);
    if (g.wants(i)) g.set(i, narrow(g.dy(), axis, start, length));
    start = start + length;
  }
}

std::vector<TensorType> Split::infer(Types in) const {
  const int at = normalize_axis(axis, in[0].shape.rank());
  std::vector<TensorType> types;
  Dim sum(0);
  for (int64_t size : sizes) {
    types.push_back(in[0]);
    types.back().shape[at] = size;
    sum = sum + Dim(size);
  }
  if (!(sum == in[0].shape[at]))
    fail("split into parts of {} in all, but axis {} of {} has size {}", sum.to_string(), at,
         in[0].to_string(), in[0].shape[at].to_string());
  return types;
}

void Split::grad(GradientContext& g) const {
  std::vector<Value> parts;
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i)
    parts.push_back(g.dy(i) ? g.dy(i) : zeros_like(g.output(i)));
  g.set(0, concat(parts, axis));
}

std::vector<TensorType> Pad::infer(Types in) const {
  Shape shape = in[0].shape;
  if (before.size() != shape.dims().size() || after.size() != before.size())
    fail("pad was given {} amounts before and {} after for {}: give one per axis", before.size(),
         after.size(), in[0].to_string());
  check_fill(value, in[0].dtype, "pad");
  for (int i = 0; i < shape.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    check_amount(before[at], "an amount to pad");
    check_amount(after[at], "an amount to pad");
    shape[i] = shape[i] + Dim(before[at]) + Dim(after[at]);
  }
  return {{in[0].dtype, shape}};
}

void Pad::grad(GradientContext& g) const { g.set(0, pad(g.dy(), negated(before), negated(after))); }

void Slice::grad(GradientContext& g) const {
  const Unslice back{axis, start, {g.input(0).dim(axis)}, step};
  g.set(0, emit(back, {g.dy()}));
}

void Unslice::grad(GradientContext& g) const {
  g.set(0, strided(g.dy(), normalize_axis(axis, g.dy().rank()), start[0], g.input(0).dim(axis), step));
}

}  // namespace ops

std::span<const OpDef* const> slice_ops() {
  return kOpDefs<ops::Slice, ops::Unslice, ops::Concat, ops::Split, ops::Pad>;
}

Value slice(Value x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  const int at = normalize_axis(axis, x.rank());
  if (step == 0) fail("a slice cannot have step 0");
  check_amount(step, "the step of a slice");
  const Dim size = x.shape()[at];
  if (size.is_constant()) return slice_known(x, at, size.value(), start, end, step);
  return slice_symbolic(x, at, size, start, end, step);
}

Value narrow(Value x, int64_t axis, Dim start, Dim length) {
  return strided(x, normalize_axis(axis, x.rank()), start, length, 1);
}

Value select(Value x, int64_t axis, int64_t index) {
  const int at = normalize_axis(axis, x.rank());
  const Dim start = index < 0 ? x.shape()[at] + Dim(index) : Dim(index);
  const Value part = narrow(x, at, start, 1);
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (i != at) shape.push_back(x.shape()[i]);
  return reshape(part, shape);
}

Value concat(const std::vector<Value>& xs, int64_t axis) {
  if (xs.empty()) fail("concat of no tensors");
  const int at = normalize_axis(axis, xs[0].rank());
  if (xs.size() == 1) return xs[0];
  return emit(ops::Concat{at}, xs);
}

Value stack(const std::vector<Value>& xs, int64_t axis) {
  if (xs.empty()) fail("stack of no tensors");
  const int at = normalize_axis(axis, xs[0].rank() + 1);
  std::vector<Value> parts;
  for (const Value& x : xs) parts.push_back(unsqueeze(x, at));
  return concat(parts, at);
}

// Slices along the leading axis are views. Along other axes one op returns them all, so that its gradient is one concat.
std::vector<Value> split(Value x, const std::vector<int64_t>& sizes, int64_t axis) {
  const int at = normalize_axis(axis, x.rank());
  const auto is_one = [](const Dim& dim) { return dim == Dim(1); };
  if (sizes.size() > 1 && !std::all_of(x.shape().begin(), x.shape().begin() + at, is_one))
    return emit_node(ops::Split{at, sizes}, {x});
  ops::Split{at, sizes}.infer(std::vector<TensorType>{x.type()});  // checks the sum of the sizes
  std::vector<Value> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(narrow(x, at, start, size));
    start += size;
  }
  return parts;
}

std::vector<Value> chunk(Value x, int64_t chunks, int64_t axis) {
  const Dim& size = x.dim(axis);
  if (chunks < 1 || !size.is_constant() || size.value() % chunks != 0)
    fail("axis {} of {} does not cut into {} equal parts", axis, x.type().to_string(), chunks);
  return split(x, std::vector<int64_t>(static_cast<size_t>(chunks), size.value() / chunks), axis);
}

Value pad(Value x, std::vector<int64_t> before, std::vector<int64_t> after, double value, PadMode mode) {
  const ops::Pad op{std::move(before), std::move(after), value};
  op.infer(std::vector<TensorType>{x.type()});  // checks the number of amounts
  const auto is_zero = [](int64_t amount) { return amount == 0; };
  if (std::ranges::all_of(op.before, is_zero) && std::ranges::all_of(op.after, is_zero)) return x;
  if (mode == PadMode::kConstant) return emit(op, {x});
  for (int i = 0; i < x.rank(); ++i)
    x = pad_from_itself(x, i, op.before[static_cast<size_t>(i)], op.after[static_cast<size_t>(i)], mode);
  return x;
}

}  // namespace genesis
