#include "backends/cpu/reduce/reduce_shape.h"

#include <algorithm>

#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

// Describes the copy of x into scratch memory that moves the reduced axes last.
void gather_axes(ReduceShape& result, const std::vector<int64_t>& dims, const std::vector<int>& order,
                 DType dtype) {
  const std::vector<int64_t> dense = dense_strides(dims);
  std::vector<int64_t> sizes, strides;
  for (int axis : order) {
    sizes.push_back(dims[static_cast<size_t>(axis)]);
    strides.push_back(dense[static_cast<size_t>(axis)]);
  }
  const auto element = static_cast<int64_t>(size_of(dtype));
  result.gather = make_strided_copy(sizes, dense_strides(sizes), strides, element);
  result.gather_bytes = (CheckedSize(result.outer) * result.count * element).rounded_up(64).value();
}

}  // namespace

ReduceShape make_reduce_shape(const Shape& shape, std::span<const int> axes, DType dtype, bool rows_only) {
  const std::vector<int64_t> dims = shape.sizes();
  const auto is_reduced = [&](int i) { return std::ranges::find(axes, i) != axes.end(); };
  ReduceShape result;
  std::vector<int> kept, reduced;
  int runs = 0;  // number of runs of adjacent reduced axes; axes of size 1 are ignored
  bool inside = false;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t size = dims[static_cast<size_t>(i)];
    (is_reduced(i) ? reduced : kept).push_back(i);
    if (is_reduced(i)) result.count *= size;
    if (size == 1) continue;
    if (is_reduced(i)) {
      runs += !inside;
    } else {
      (runs == 0 ? result.outer : result.inner) *= size;
    }
    inside = is_reduced(i);
  }
  if (runs <= 1 && !(rows_only && result.inner != 1)) return result;
  result.outer *= result.inner;
  result.inner = 1;
  kept.insert(kept.end(), reduced.begin(), reduced.end());
  gather_axes(result, dims, kept, dtype);
  return result;
}

}  // namespace genesis::cpu
