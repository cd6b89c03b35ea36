#include "backends/common/moves/strided_copy.h"

namespace genesis {
namespace {

void remove_axis(StridedCopy& c, int axis) {
  for (auto i = static_cast<size_t>(axis); i + 1 < static_cast<size_t>(c.rank); ++i) {
    c.dims[i] = c.dims[i + 1], c.to[i] = c.to[i + 1], c.from[i] = c.from[i + 1];
  }
  --c.rank;
}

// Removes axes of size 1, and merges neighboring axes that both sides traverse with a common stride.
void merge_axes(StridedCopy& c) {
  for (int i = c.rank - 1; i >= 0; --i)
    if (c.dims[static_cast<size_t>(i)] == 1) remove_axis(c, i);
  for (int i = c.rank - 2; i >= 0; --i) {
    const auto k = static_cast<size_t>(i);
    if (c.to[k] != c.to[k + 1] * c.dims[k + 1] || c.from[k] != c.from[k + 1] * c.dims[k + 1]) continue;
    c.dims[k + 1] *= c.dims[k];
    remove_axis(c, i);
  }
}

// Turns a short contiguous last axis into one wider element: pairs, complex numbers, heads of a few channels.
void widen_element(StridedCopy& c) {
  if (c.rank < 2) return;
  const auto last = static_cast<size_t>(c.rank - 1);
  const int64_t bytes = c.dims[last] * c.element, n = c.dims[last];
  if (c.to[last] != 1 || c.from[last] != 1 || (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16)) return;
  for (size_t i = 0; i < last; ++i)
    if (c.to[i] % n != 0 || c.from[i] % n != 0) return;
  if (c.to_offset % bytes != 0 || c.from_offset % bytes != 0) return;
  for (size_t i = 0; i < last; ++i) c.to[i] /= n, c.from[i] /= n;
  c.element = bytes;
  remove_axis(c, c.rank - 1);
}

void find_transposed(StridedCopy& c) {
  const auto last = static_cast<size_t>(c.rank - 1);
  if (c.rank < 2 || c.to[last] != 1 || c.from[last] == 1 || c.from[last] <= 0) return;
  for (int i = 0; i < c.rank - 1; ++i)
    if (c.from[static_cast<size_t>(i)] == 1 && c.dims[static_cast<size_t>(i)] > 2) c.transposed = i;
}

}  // namespace

std::vector<int64_t> dense_strides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

StridedCopy make_strided_copy(std::span<const int64_t> dims, std::span<const int64_t> to,
                              std::span<const int64_t> from, int64_t element, int64_t to_offset,
                              int64_t from_offset, bool widen) {
  StridedCopy c;
  c.rank = static_cast<int>(dims.size());
  c.element = element;
  c.to_offset = to_offset * element, c.from_offset = from_offset * element;
  for (size_t i = 0; i < dims.size(); ++i) {
    c.dims[i] = dims[i], c.to[i] = to[i], c.from[i] = from[i];
    c.empty |= dims[i] == 0;
  }
  if (c.empty) return c;
  merge_axes(c);
  if (widen) widen_element(c);
  find_transposed(c);
  return c;
}

}  // namespace genesis
