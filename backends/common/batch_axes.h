// Reduces the batch dimensions of a matrix product to as few as possible: neighboring dimensions that are contiguous in both
// operands are merged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace genesis {

// One batch dimension: its size, and its stride in each operand, in elements.
struct BatchAxis {
  int64_t size, a, b, c;
};

inline std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

// Returns the batch dimensions of the result, with stride 0 where an operand is broadcast. Neighboring dimensions with a common
// stride are merged. `a`, `b` and `c` are the full sizes of the operands.
inline std::vector<BatchAxis> batch_axes(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                                         const std::vector<int64_t>& c) {
  const auto stride = [&](const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                          size_t axis) {
    if (axis + sizes.size() < c.size()) return int64_t{0};
    const size_t at = axis + sizes.size() - c.size();
    return sizes[at] == 1 ? 0 : strides[at];
  };
  const auto strides_a = dense_strides(a), strides_b = dense_strides(b), strides_c = dense_strides(c);
  std::vector<BatchAxis> axes;
  for (size_t i = 0; i + 2 < c.size(); ++i) {
    const BatchAxis axis{c[i], stride(a, strides_a, i), stride(b, strides_b, i), strides_c[i]};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().a == axis.a * axis.size && axes.back().b == axis.b * axis.size)
      axes.back() = {axes.back().size * axis.size, axis.a, axis.b, axis.c};
    else
      axes.push_back(axis);
  }
  return axes;
}

// If the innermost batch dimension only adds rows to the product (e.g. query heads that share a key head), removes it and returns
// its size, else returns 1. This is so if b has stride 0 along it, and a and c advance by whole matrices.
inline int64_t take_row_axis(std::vector<BatchAxis>& axes, bool transpose_a, int64_t a_matrix,
                             int64_t c_matrix) {
  if (axes.empty() || transpose_a) return 1;
  const BatchAxis axis = axes.back();
  if (axis.b != 0 || axis.a != a_matrix || axis.c != c_matrix) return 1;
  axes.pop_back();
  return axis.size;
}

// Removes and returns the longest dimension, which a batched product iterates over itself.
inline std::optional<BatchAxis> take_longest(std::vector<BatchAxis>& axes) {
  if (axes.empty()) return std::nullopt;
  const auto longest = std::ranges::max_element(axes, {}, &BatchAxis::size);
  const BatchAxis axis = *longest;
  axes.erase(longest);
  return axis;
}

struct BatchOffsets {
  int64_t a, b, c;  // bytes
};

// Returns the offsets of the matrices along all of `axes`.
inline std::vector<BatchOffsets> all_offsets(const std::vector<BatchAxis>& axes, int64_t element_bytes) {
  std::vector<BatchOffsets> offsets = {{0, 0, 0}};
  for (const BatchAxis& axis : axes) {
    std::vector<BatchOffsets> longer;
    for (const BatchOffsets& start : offsets)
      for (int64_t i = 0; i < axis.size; ++i)
        longer.push_back({start.a + i * axis.a * element_bytes, start.b + i * axis.b * element_bytes,
                          start.c + i * axis.c * element_bytes});
    offsets = std::move(longer);
  }
  return offsets;
}

}  // namespace genesis
