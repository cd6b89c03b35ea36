#include "backends/cpu/convolution/tap_product.h"

#include <algorithm>

#include "backends/cpu/moves/transpose.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kBlockDepth = 256;   // terms that are packed at a time
constexpr int64_t kTileColumns = 208;  // most columns of a task: 13 vectors of AVX-512, for 14 x 14 positions
constexpr int64_t kMaxLanes = 16;
constexpr int64_t kMinTaskRows = 128, kWantedTasks = 16;
constexpr int64_t kPanelColumns = kMaxVectors * kMaxLanes;
constexpr int64_t kMaxDots = 4;
constexpr int64_t kLine = 16;  // floats of a cache line

int64_t pieces_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A part of a tile's columns that one register tile computes.
struct Panel {
  int64_t first = 0, columns = 0;  // first: counted from the tile's first column
  int vectors = 0, runs = 0;       // vectors: 0 for columns that are multiplied as dot products
  int64_t offset = 0;              // place of its packed columns
  Run run[kPanelColumns];
};

// Divides columns into panels of three vectors, and of two where a panel of one vector would be left over. Few columns behind whole
// vectors are dot products: as a vector of their own they would cost as much as `lanes` columns.
int cut_panels(int64_t columns, int64_t lanes, Panel* panels) {
  const int64_t rest = columns % lanes, dots = columns > lanes && rest <= kMaxDots ? rest : 0;
  int64_t left = pieces_of(columns - dots, lanes), first = 0, offset = 0;
  int count = 0;
  while (first < columns) {
    const int64_t vectors = left == 4 || left == 2 ? 2 : std::min<int64_t>(left, kMaxVectors);
    Panel& panel = panels[count++];
    panel.first = first, panel.columns = left > 0 ? std::min(columns - first, vectors * lanes) : dots;
    panel.vectors = static_cast<int>(vectors), panel.offset = offset;
    offset += std::max<int64_t>(vectors, 1) * lanes * kBlockDepth;
    first += panel.columns;
    left -= vectors;
  }
  return count;
}

// The division of the product of one image and group into tasks follows from the shape alone.
struct Cut {
  int64_t tile_columns, column_tiles, tile_rows, row_tiles;
};

Cut cut_of(const TapProduct& product, int64_t images, const TileFunctions& tile) {
  const int64_t rest = product.positions() % tile.lanes, most = kTileColumns / tile.lanes;
  const int64_t vectors =
      product.positions() / tile.lanes + (rest > kMaxDots || product.positions() < tile.lanes);
  Cut cut{};
  cut.tile_columns = pieces_of(vectors, pieces_of(vectors, most)) * tile.lanes;
  cut.column_tiles = pieces_of(vectors * tile.lanes, cut.tile_columns);
  const int64_t tasks = images * product.groups * cut.column_tiles;
  const int64_t parts = std::clamp<int64_t>(pieces_of(kWantedTasks, std::max<int64_t>(1, tasks)), 1,
                                            std::max<int64_t>(1, product.rows / kMinTaskRows));
  cut.tile_rows = pieces_of(pieces_of(product.rows, parts), tile.rows) * tile.rows;
  cut.row_tiles = pieces_of(product.rows, cut.tile_rows);
  return cut;
}

// One task: a tile of y.
class Tile {
 public:
  Tile(const TapProduct& product, const TileFunctions& functions, const float* weights,
       const ColumnSource& source, float* y, const Epilogue& epilogue)
      : product_(product),
        functions_(functions),
        weights_(weights),
        source_(source),
        y_(y),
        epilogue_(epilogue) {}

  void run(int64_t first_column, int64_t columns, int64_t rows) {
    alignas(64) float packed[(kTileColumns + kPanelColumns) * kBlockDepth + 2 * kMaxLanes];
    Panel panels[kTileColumns / 4 + 1];
    const int count = cut_panels(columns, functions_.lanes, panels);
    for (int i = 0; i < count; ++i)
      panels[i].runs =
          product_.layout.list_runs(first_column + panels[i].first, panels[i].columns, panels[i].run);
    for (int64_t k = 0; k < product_.depth(); k += kBlockDepth) {
      const int64_t depth = std::min(kBlockDepth, product_.depth() - k);
      for (int i = 0; i < count; ++i) pack(panels[i], k, depth, packed + panels[i].offset);
      for (int64_t row = 0; row < rows; row += functions_.rows)
        multiply(row, rows, first_column, {panels, static_cast<size_t>(count)}, packed, k, depth);
    }
  }

 private:
  void pack(const Panel& panel, int64_t k, int64_t depth, float* to) const {
    const std::span<const Run> runs(panel.run, static_cast<size_t>(panel.runs));
    if (panel.vectors > 0)
      return functions_.pack(source_, runs, k, depth, panel.vectors * functions_.lanes, to);
    alignas(64) float terms[kBlockDepth * kMaxLanes + 2 * kMaxLanes];
    functions_.pack(source_, runs, k, depth, functions_.lanes, terms);
    for (int64_t j = 0; j < panel.columns; ++j)
      for (int64_t p = 0; p < depth; ++p) to[j * kBlockDepth + p] = terms[p * functions_.lanes + j];
  }

  // Returns the weights that are multiplied after these: of the next rows, or of the first ones in the next block of terms.
  const float* next_rows(int64_t row, int64_t k, int64_t depth, int64_t all_rows) const {
    if (row + functions_.rows < all_rows) return weights_ + (row + functions_.rows) * product_.depth() + k;
    return k + depth < product_.depth() ? weights_ + k + depth : nullptr;
  }

  void multiply(int64_t row, int64_t all_rows, int64_t first_column, std::span<const Panel> panels,
                const float* packed, int64_t k, int64_t depth) const {
    const int64_t rows = std::min<int64_t>(functions_.rows, all_rows - row);
    const float* weights = weights_ + row * product_.depth() + k;
    const bool is_last = k + depth == product_.depth();
    const float* next = next_rows(row, k, depth, all_rows);
    for (const Panel& panel : panels) {
      const int64_t at = row * product_.positions() + first_column + panel.first;
      const Epilogue epilogue = epilogue_.behind(row, at);
      const ColumnTileProduct tile = {.depth = depth,
                                      .a = weights,
                                      .lda = product_.depth(),
                                      .rows = static_cast<int>(rows),
                                      .b = packed + panel.offset,
                                      .vectors = panel.vectors,
                                      .columns = panel.columns,
                                      .c = y_ + at,
                                      .ldc = product_.positions(),
                                      .add = k > 0,
                                      .epilogue = is_last ? &epilogue : nullptr,
                                      .next = &panel == panels.data() ? next : nullptr};
      panel.vectors > 0 ? functions_.multiply(tile) : functions_.dots(tile, kBlockDepth);
    }
  }

  const TapProduct& product_;
  const TileFunctions& functions_;
  const float* weights_;
  ColumnSource source_;
  float* y_;
  Epilogue epilogue_;
};

ColumnSource source_of(const TapProduct& p, const float* planes, int64_t image, int64_t group) {
  const int64_t channel = p.layout.channel();
  return {planes + (image * p.groups + group) * p.channels * channel, channel, p.taps, p.is_exact};
}

}  // namespace

TapProduct tap_product_of(const ConvolutionShape& s) {
  const PlaneLayout layout = planes_of(s.windows);
  return {.layout = layout,
          .taps = tap_offsets(s.windows, layout),
          .groups = s.groups,
          .rows = s.out_each,
          .channels = s.in_each,
          .is_exact = s.dtype == DType::f32 && layout.is_image()};
}

void run_tap_product(const TapProduct& p, const float* weights, const float* planes, int64_t images, float* y,
                     const Epilogue& epilogue) {
  const TileFunctions tile = tile_functions();
  const Cut cut = cut_of(p, images, tile);
  // Tasks of one tile of columns follow one another, so that the columns are read from a cache again.
  parallel_chunks(images * p.groups * cut.column_tiles * cut.row_tiles, [&](int64_t index) {
    const int64_t row = index % cut.row_tiles * cut.tile_rows;
    const int64_t column = index / cut.row_tiles % cut.column_tiles * cut.tile_columns;
    const bool is_last =
        column + cut.tile_columns == cut.column_tiles * cut.tile_columns;  // it takes the rest
    const int64_t group = index / cut.row_tiles / cut.column_tiles % p.groups,
                  image = index / cut.row_tiles / cut.column_tiles / p.groups;
    const int64_t first = group * p.rows + row, to = (image * p.groups * p.rows + first) * p.positions();
    Tile(p, tile, weights + first * p.depth(), source_of(p, planes, image, group), y + to,
         epilogue.behind(first, to))
        .run(column, is_last ? p.positions() - column : cut.tile_columns,
             std::min(cut.tile_rows, p.rows - row));
  });
}

namespace {

constexpr int64_t kLineOfColumns =
    kBlockDepth + 17 * kLine;  // no power of 2, and room for a vector behind a run

// Adds one block of positions to the tile [rows][columns] of dw.
struct GradientTile {
  const TapProduct& product;
  const TileFunctions& functions;
  int64_t row, rows, column, columns;  // a tile of one group's dw

  void run(const float* dy, const ColumnSource& source, float* dw, bool add) const {
    alignas(64) float lines[kPanelColumns * kLineOfColumns], panel[kPanelColumns * kBlockDepth];
    Run runs[kBlockDepth];
    const int64_t width = pieces_of(columns, functions.lanes) * functions.lanes,
                  positions = product.positions();
    for (int64_t k = 0; k < positions; k += kBlockDepth, add = true) {
      const int64_t depth = std::min(kBlockDepth, positions - k);
      const auto count = static_cast<size_t>(product.layout.list_runs(k, depth, runs));
      functions.pack(source, {runs, count}, column, columns, kLineOfColumns, lines);
      transpose_tile(panel, width, lines, kLineOfColumns, columns, depth, 4, false);
      for (int64_t i = 0; i < rows; i += functions.rows)
        functions.multiply({.depth = depth,
                            .a = dy + (row + i) * positions + k,
                            .lda = positions,
                            .rows = static_cast<int>(std::min<int64_t>(functions.rows, rows - i)),
                            .b = panel,
                            .vectors = static_cast<int>(width / functions.lanes),
                            .columns = columns,
                            .c = dw + (row + i) * product.depth() + column,
                            .ldc = product.depth(),
                            .add = add});
    }
  }
};

}  // namespace

void run_weight_gradient(const TapProduct& p, const float* dy, const float* planes, int64_t images, float* dw,
                         bool add) {
  const TileFunctions tile = tile_functions();
  const int64_t width = kMaxVectors * tile.lanes, column_tiles = pieces_of(p.depth(), width);
  const int64_t parts = std::clamp<int64_t>(pieces_of(kWantedTasks, p.groups * column_tiles), 1,
                                            std::max<int64_t>(1, p.rows / 32));
  const int64_t tile_rows = pieces_of(pieces_of(p.rows, parts), tile.rows) * tile.rows;
  const int64_t row_tiles = pieces_of(p.rows, tile_rows);
  parallel_chunks(p.groups * column_tiles * row_tiles, [&](int64_t index) {
    const int64_t row = index % row_tiles * tile_rows, column = index / row_tiles % column_tiles * width,
                  group = index / row_tiles / column_tiles;
    const GradientTile part{
        p, tile, row, std::min(tile_rows, p.rows - row), column, std::min(width, p.depth() - column)};
    for (int64_t image = 0; image < images; ++image)
      part.run(dy + (image * p.groups + group) * p.rows * p.positions(), source_of(p, planes, image, group),
               dw + group * p.rows * p.depth(), add || image > 0);
  });
}

}  // namespace genesis::cpu
