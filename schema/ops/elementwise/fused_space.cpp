#include "schema/ops/elementwise/fused_space.h"

#include <algorithm>

namespace genesis {
namespace {

std::vector<int64_t> strides_in(const Shape& shape, const Shape& space) {
  std::vector<int64_t> strides(static_cast<size_t>(space.rank()), 0);
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int64_t size = shape[i].value();
    if (size != 1) strides[static_cast<size_t>(i + space.rank() - shape.rank())] = stride;
    stride *= size;
  }
  return strides;
}

// Returns true if axis a can be merged with the next one: every input covers both with one stride.
bool can_merge(const FusedSpace& space, size_t a) {
  return std::ranges::all_of(space.strides,
                             [&](const auto& s) { return s[a] == s[a + 1] * space.sizes[a + 1]; });
}

void drop_axis(FusedSpace& space, size_t a) {
  space.sizes.erase(space.sizes.begin() + static_cast<ptrdiff_t>(a));
  for (auto& s : space.strides) s.erase(s.begin() + static_cast<ptrdiff_t>(a));
}

void merge_axes(FusedSpace& space, bool keep_last) {
  auto& sizes = space.sizes;
  const size_t kept = keep_last ? 1 : 0;
  for (size_t a = sizes.size(); a-- > 0;)
    if (sizes[a] == 1 && sizes.size() > 1 && a + kept < sizes.size()) drop_axis(space, a);
  for (size_t a = sizes.size() - std::min(sizes.size(), kept); a-- > 1;)
    if (can_merge(space, a - 1)) {
      sizes[a - 1] *= sizes[a];
      for (auto& s : space.strides) s[a - 1] = s[a];
      drop_axis(space, a);
    }
}

}  // namespace

FusedSpace merged_space(const FusedProgram& program) {
  FusedSpace space{program.space.sizes(), {}};
  for (const TensorType& type : program.inputs)
    space.strides.push_back(strides_in(type.shape, program.space));
  if (space.sizes.empty()) {
    space.sizes.push_back(1);
    for (auto& s : space.strides) s.push_back(0);
  }
  merge_axes(space, program.has_rows);
  return space;
}

}  // namespace genesis
