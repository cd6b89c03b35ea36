#include "builder/functions.h"

#include <algorithm>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/attention.h"

namespace genesis {
namespace {

Value real(Value x) { return is_float(x.dtype()) ? x : cast(x, DType::f32); }

}  // namespace

Value movedim(Value x, int64_t source, int64_t destination) {
  const int from = normalize_axis(source, x.rank()), to = normalize_axis(destination, x.rank());
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i != from) axes.push_back(i);
  axes.insert(axes.begin() + to, from);
  return permute(x, std::move(axes));
}

Value unflatten(Value x, int64_t axis, const Shape& sizes) {
  const int at = normalize_axis(axis, x.rank());
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) {
      shape.push_back(x.dim(i));
      continue;
    }
    for (const Dim& size : sizes) shape.push_back(size);
  }
  return reshape(x, std::move(shape));
}

std::vector<Value> unbind(Value x, int64_t axis) {
  std::vector<Value> parts;
  for (int64_t i = 0, count = x.dim(axis).value(); i < count; ++i) parts.push_back(select(x, axis, i));
  return parts;
}

std::vector<Value> split_every(Value x, int64_t size, int64_t axis) {
  if (size < 1) fail("split was given pieces of {} elements: give a positive number", size);
  std::vector<int64_t> sizes;
  for (int64_t left = x.dim(axis).value(); left > 0; left -= size) sizes.push_back(std::min(left, size));
  return split(x, sizes, axis);
}

Value norm(Value x, const AxisList& axes, bool keep_dims) {
  return sqrt(sum(square(real(x)), axes, keep_dims));
}

Value count_nonzero(Value x, const AxisList& axes) { return sum(x != 0, axes); }

Value logical_xor(Value a, Value b) { return ne(logical_not(a), logical_not(b)); }

Value relu6(Value x) { return clamp(x, 0, 6); }

Value hardtanh(Value x, double min, double max) { return clamp(x, min, max); }

Value hardsigmoid(Value x) { return clamp(x + 3, 0, 6) / 6; }

Value logsigmoid(Value x) { return -softplus(-x); }

// The constants give outputs of mean 0 and variance 1 (Klambauer et al., "Self-normalizing neural networks", 2017).
Value selu(Value x) { return elu(x, 1.6732632423543772) * 1.0507009873554805; }

Value glu(Value x, int64_t axis) {
  const std::vector<Value> halves = chunk(x, 2, axis);
  return halves[0] * sigmoid(halves[1]);
}

Value normalize(Value x, int64_t axis, double eps) { return x / maximum(norm(x, axis, true), eps); }

Value cosine_similarity(Value a, Value b, int64_t axis, double eps) {
  return sum(normalize(a, axis, eps) * normalize(b, axis, eps), axis);
}

Value scaled_dot_product_attention(Value q, Value k, Value v, Value mask, bool is_causal, double scale) {
  return attention(q, k, v, {.causal = is_causal, .scale = scale, .layout = AttentionLayout::kBHTD}, mask);
}

}  // namespace genesis
