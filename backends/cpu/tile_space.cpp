#include <algorithm>

#include "backends/cpu/tile_program.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kWholeRow = 256;       // shorter rows share a tile
constexpr int64_t kTileElements = 2048;  // at most, unless a row is longer and may not be cut

size_t index(int i) { return static_cast<size_t>(i); }

std::vector<int64_t> strides_in(const Shape& shape, const Shape& space) {
  std::vector<int64_t> strides(index(space.rank()), 0);
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int64_t size = shape[i].value();
    if (size != 1) strides[index(i + space.rank() - shape.rank())] = stride;
    stride *= size;
  }
  return strides;
}

// Axis a can be merged into the next one when every input steps over both in one stride.
bool can_merge(const std::vector<std::vector<int64_t>>& strides, size_t a, int64_t next_size) {
  return std::all_of(strides.begin(), strides.end(),
                     [&](const auto& s) { return s[a] == s[a + 1] * next_size; });
}

void drop_axis(std::vector<int64_t>& sizes, std::vector<std::vector<int64_t>>& strides, size_t a) {
  sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(a));
  for (auto& s : strides) s.erase(s.begin() + static_cast<ptrdiff_t>(a));
}

void merge_axes(std::vector<int64_t>& sizes, std::vector<std::vector<int64_t>>& strides, bool keep_last) {
  const size_t kept = keep_last ? 1 : 0;
  for (size_t a = sizes.size(); a-- > 0;)
    if (sizes[a] == 1 && sizes.size() > 1 && a + kept < sizes.size()) drop_axis(sizes, strides, a);
  for (size_t a = sizes.size() - std::min(sizes.size(), kept); a-- > 1;)
    if (can_merge(strides, a - 1, sizes[a])) {
      sizes[a - 1] *= sizes[a];
      for (auto& s : strides) s[a - 1] = s[a];
      drop_axis(sizes, strides, a);
    }
}

}  // namespace

void set_index_space(TileProgram& tiles, const FusedProgram& program) {
  std::vector<int64_t> sizes = program.space.sizes();
  std::vector<std::vector<int64_t>> strides;
  for (const TensorType& type : program.inputs) strides.push_back(strides_in(type.shape, program.space));
  if (sizes.empty()) {
    sizes.push_back(1);
    for (auto& s : strides) s.push_back(0);
  }
  merge_axes(sizes, strides, program.has_rows);
  tiles.columns = sizes.back();
  tiles.num_outer = static_cast<int>(sizes.size()) - 1;
  for (size_t a = 0; a + 1 < sizes.size(); ++a) {
    tiles.outer[a] = sizes[a];
    tiles.rows *= sizes[a];
  }
  for (size_t i = 0; i < strides.size(); ++i) {
    Layout layout;
    std::copy(strides[i].begin(), strides[i].end(), layout.strides.begin());
    layout.dense = program.inputs[i].numel() == program.space.numel().value();
    layout.only_columns =
        std::all_of(strides[i].begin(), strides[i].end() - 1, [](int64_t s) { return s == 0; });
    layout.element_bytes = static_cast<int>(size_of(program.inputs[i].dtype));
    tiles.layouts.push_back(layout);
  }
  const bool cut = !program.has_rows && tiles.columns >= kWholeRow;
  tiles.tile_columns = cut ? std::min(kTileElements, tiles.columns) : tiles.columns;
  tiles.tile_rows = std::max<int64_t>(1, cut ? 1 : kTileElements / 4 / std::max<int64_t>(1, tiles.columns));
  tiles.tile_rows = std::min(tiles.tile_rows, std::max<int64_t>(1, tiles.rows));
}

}  // namespace genesis::cpu
