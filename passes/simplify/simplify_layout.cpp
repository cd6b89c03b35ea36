// Simplifies ops that only move elements: reshapes, transposes, expansions, slices, concatenations.
#include <algorithm>

#include "passes/core/analysis.h"
#include "passes/simplify/simplify.h"
#include "schema/ops/create.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

std::vector<int64_t> axes_of(const Attributes& attributes, int rank) {
  std::vector<int64_t> axes = from_attributes<ops::Permute>(attributes).axes;
  for (int64_t& axis : axes) axis = normalize_axis(axis, rank);
  return axes;
}

// reshape(x, x's shape), expand(x, x's shape), concat(x), x[:] -> x
Value needless_move(const Candidate& c) {
  const bool moves = is<ops::Reshape, ops::Expand>(c.op) || (is<ops::Concat>(c.op) && c.inputs.size() == 1);
  if (moves && c.inputs[0].type() == c.type) return c.inputs[0];
  if (!is<ops::Slice>(c.op) || !(c.inputs[0].type() == c.type)) return {};
  return from_attributes<ops::Slice>(c.attributes).step == 1 ? c.inputs[0] : Value();
}

// reshape(reshape(x)) -> reshape(x)
Value reshape_of_reshape(const Candidate& c) {
  const Value x = is<ops::Reshape>(c.op) ? under_its_like(c) : Value();
  return x ? reshape(x, c.type.shape) : Value();
}

// expand(expand(x)) -> expand(x)
Value expand_of_expand(const Candidate& c) {
  const Value x = is<ops::Expand>(c.op) ? under_its_like(c) : Value();
  return x ? expand(x, c.type.shape) : Value();
}

// permute(x, 0 1 2 ...) -> x
Value needless_permute(const Candidate& c) {
  if (!is<ops::Permute>(c.op)) return {};
  const std::vector<int64_t> axes = axes_of(c.attributes, c.inputs[0].rank());
  return std::ranges::is_sorted(axes) ? c.inputs[0] : Value();
}

// permute(permute(x, a), b) -> permute(x, a[b])
Value permute_of_permute(const Candidate& c) {
  if (!is<ops::Permute>(c.op)) return {};
  const auto inner = match<ops::Permute>(c.graph, c.inputs[0].id);
  if (!inner) return {};
  const int rank = c.inputs[0].rank();
  const auto first = axes_of(inner.node->attributes, rank), second = axes_of(c.attributes, rank);
  std::vector<int64_t> axes;
  for (int64_t axis : second) axes.push_back(first[static_cast<size_t>(axis)]);
  const Value x = c.graph.handle(inner.input(0));
  return std::ranges::is_sorted(axes) ? x : permute(x, axes);
}

// reshape(permute(reshape(x, all axes but a first one of size 1)), all axes again) -> permute(x), as exporters write the transposition
// of keys
Value permute_below_one(const Candidate& c) {
  if (!is<ops::Reshape>(c.op)) return {};
  const auto moved = match<ops::Permute>(c.graph, c.inputs[0].id);
  const auto below = moved ? match<ops::Reshape>(c.graph, moved.input(0)) : Matched<ops::Reshape>{};
  if (!below) return {};
  const Value x = c.graph.handle(below.input(0));
  const auto is_below_one = [](const Shape& all, const Shape& without) {
    return all.rank() == without.rank() + 1 && all[0] == Dim(1) &&
           std::equal(all.begin() + 1, all.end(), without.begin());
  };
  if (!is_below_one(x.shape(), c.graph.type(moved.input(0)).shape) ||
      !is_below_one(c.type.shape, c.inputs[0].shape()))
    return {};
  std::vector<int64_t> axes = {0};
  for (const int64_t axis : axes_of(moved.node->attributes, c.inputs[0].rank())) axes.push_back(axis + 1);
  return permute(x, axes);
}

// reshape(full), expand(full) -> full with that shape
Value full_of_shape(const Candidate& c) {
  if (!is<ops::Reshape, ops::Expand>(c.op)) return {};
  const auto inner = match<ops::Full>(c.graph, c.inputs[0].id);
  return inner ? full(c.graph, c.type.shape, inner->value, inner->dtype) : Value();
}

// dim_value with a known size -> full
Value known_dim(const Candidate& c) {
  if (!is<ops::DimValue>(c.op)) return {};
  const auto op = from_attributes<ops::DimValue>(c.attributes);
  const auto size = op.dim[0].constant();
  return size ? full(c.graph, {}, Scalar(*size), op.dtype) : Value();
}

// f(expand(x), y) -> f(x, y) for elementwise f, if the operands give the same shape without the expansion
Value expand_under_elementwise(const Candidate& c) {
  if (!c.op.info.elementwise || c.inputs.size() < 2) return {};
  std::vector<Value> inputs = c.inputs;
  bool found = false;
  for (Value& input : inputs) {
    const Value x = under<ops::Expand>(input);
    if (!x) continue;
    const Value kept = input;
    input = x;
    Shape shape = inputs[0].shape();
    for (const Value& other : inputs) shape = broadcast(shape, other.shape());
    if (shape == c.type.shape)
      found = true;
    else
      input = kept;
  }
  if (!found) return {};
  std::vector<TensorType> types;
  for (const Value& input : inputs) types.push_back(input.type());
  if (!(infer_types(c.op, c.attributes, types)[0] == c.type))
    return {};  // a 0-d operand promotes differently
  return c.graph.add_node(c.op, c.attributes, inputs)[0];
}

constexpr SimplifyRule kRules[] = {
    {"needless_move", needless_move},
    {"reshape_of_reshape", reshape_of_reshape},
    {"expand_of_expand", expand_of_expand},
    {"needless_permute", needless_permute},
    {"permute_of_permute", permute_of_permute},
    {"permute_below_one", permute_below_one},
    {"full_of_shape", full_of_shape},
    {"known_dim", known_dim},
    {"expand_under_elementwise", expand_under_elementwise},
};

}  // namespace

std::span<const SimplifyRule> layout_rules() { return kRules; }

}  // namespace genesis::passes
