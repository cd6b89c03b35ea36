// The leading axes of a matrix product as few as possible: axes that lie evenly in both operands become one.
// Used by the matmul kernels of every backend.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace genesis {

// One axis of the batch: its size, and what a step along it moves in each operand, in elements.
struct BatchAxis {
  int64_t size, a, b, c;
};

inline std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

// Leading axes of the result, with stride 0 where an operand is broadcast; neighbours that can be walked with
// one step are one axis. Sizes are those of the whole operands.
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

// Whether an innermost axis along which b stays and a and c go on by whole matrices of `rows` rows only adds
// rows (query heads that share a key head); if so it is taken off, and its size is the result.
inline int64_t take_row_axis(std::vector<BatchAxis>& axes, bool transpose_a, int64_t a_matrix,
                             int64_t c_matrix) {
  if (axes.empty() || transpose_a) return 1;
  const BatchAxis axis = axes.back();
  if (axis.b != 0 || axis.a != a_matrix || axis.c != c_matrix) return 1;
  axes.pop_back();
  return axis.size;
}

// The longest axis, taken off: what a batched product walks by itself.
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

// Where the matrices lie along all of `axes`.
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
