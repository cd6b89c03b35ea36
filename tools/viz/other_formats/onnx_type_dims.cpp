#include "tools/viz/other_formats/onnx_type_dims.h"

#include <algorithm>

#include "schema/core/parse_number.h"

namespace genesis::viz {

std::optional<int64_t> size_of(const OnnxDim& dim) { return parse_number<int64_t>(dim); }

OnnxDim dim_of(std::optional<int64_t> size) {
  return size && *size >= 0 ? std::to_string(*size) : kUnknownDim;
}

OnnxDim as_dim(const OnnxDim& element) {
  const auto size = size_of(element);
  return size ? dim_of(size) : element;
}

OnnxShape as_shape(const std::vector<OnnxDim>& elements) {
  OnnxShape shape;
  for (const OnnxDim& element : elements) shape.push_back(as_dim(element));
  return shape;
}

std::optional<int64_t> plus(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

std::optional<int64_t> times(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

std::optional<int64_t> product(const OnnxShape& shape) {
  std::optional<int64_t> all = 1;
  for (const OnnxDim& dim : shape) all = times(all, size_of(dim));
  return all;
}

std::optional<std::vector<int64_t>> sizes_of(const OnnxShape& shape) {
  std::vector<int64_t> sizes;
  for (const OnnxDim& dim : shape) {
    const auto size = size_of(dim);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

// Broadcasts one dimension. If one side is a number above 1, the other must be that number or 1.
OnnxDim broadcast(const OnnxDim& a, const OnnxDim& b) {
  if (a == "1") return b;
  if (b == "1" || a == b) return a;
  const bool a_known = size_of(a).has_value(), b_known = size_of(b).has_value();
  if (a_known == b_known) return kUnknownDim;
  return a_known ? a : b;
}

OnnxShape broadcast(const OnnxShape& a, const OnnxShape& b) {
  OnnxShape shape(std::max(a.size(), b.size()), "1");
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t from_end = shape.size() - i;
    const OnnxDim& left = from_end <= a.size() ? a[a.size() - from_end] : shape[i];
    const OnnxDim& right = from_end <= b.size() ? b[b.size() - from_end] : shape[i];
    shape[i] = broadcast(OnnxDim(left), OnnxDim(right));
  }
  return shape;
}

std::optional<size_t> axis_of(int64_t axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

}  // namespace genesis::viz
