// Chooses the axes and the initial tile size of a fused program on the CPU, from the shapes alone. tile_compile.cpp narrows the
// tiles later if many registers are live.
#include <algorithm>

#include "backends/cpu/fused/tile_program.h"
#include "schema/ops/elementwise/fused_space.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kMinSplitRow = 256;    // elements; shorter rows share a tile
constexpr int64_t kTileElements = 2048;  // most elements of a tile that is a chunk of one row
constexpr int64_t kRowsTileElements =
    512;  // most elements of a tile of whole rows, unless a single row is longer
constexpr size_t kShortProgram =
    4;  // most operations and inputs of a program for which starting a tile counts

// Returns true if rows share tiles as large as those of long rows: inputs that have not all elements are the same in every row, as
// the factors of channels, and are copied once.
bool shares_rows(const TileProgram& tiles, const FusedProgram& program) {
  const auto fits = [](const Layout& layout) { return layout.dense || layout.only_columns; };
  return !program.has_rows && program.ops.size() <= kShortProgram && tiles.layouts.size() <= kShortProgram &&
         std::ranges::all_of(tiles.layouts, fits);
}

}  // namespace

void set_index_space(TileProgram& tiles, const FusedProgram& program) {
  const auto [sizes, strides] = merged_space(program);
  tiles.columns = sizes.back();
  tiles.num_outer = static_cast<int>(sizes.size()) - 1;
  for (size_t a = 0; a + 1 < sizes.size(); ++a) {
    tiles.outer[a] = sizes[a];
    tiles.rows *= sizes[a];
  }
  for (size_t i = 0; i < strides.size(); ++i) {
    Layout layout;
    std::ranges::copy(strides[i], layout.strides.begin());
    layout.dense = program.inputs[i].numel() == program.space.numel().value();
    layout.only_columns =
        std::all_of(strides[i].begin(), strides[i].end() - 1, [](int64_t s) { return s == 0; });
    layout.element_bytes = static_cast<int>(size_of(program.inputs[i].dtype));
    tiles.layouts.push_back(layout);
  }
  // A program with values per row, such as the sums of a softmax, needs whole rows.
  const bool splits_rows = !program.has_rows && tiles.columns >= kMinSplitRow;
  tiles.tile_columns = splits_rows ? std::min(kTileElements, tiles.columns) : tiles.columns;
  tiles.tile_rows =
      std::max<int64_t>(1, splits_rows ? 1 : kRowsTileElements / std::max<int64_t>(1, tiles.columns));
  if (shares_rows(tiles, program))
    tiles.tile_rows = std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, tiles.columns));
  tiles.tile_rows = std::min(tiles.tile_rows, std::max<int64_t>(1, tiles.rows));
}

}  // namespace genesis::cpu
