// Convolutions of f32 images whose channels are last by windows of 3 x 3 that move by one, with packed weights: Winograd's products
// of tiles. Weights are transformed in every run, a part of L2 at a time: transformed ones are four times as large, so reading them
// from memory would take longer. An infinite or NaN pixel makes all results of its tile NaN.
#include <algorithm>

#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/operands.h"
#include "backends/cpu/convolution/winograd_tiles.h"
#include "backends/cpu/parallel/task_scratch.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kMaxTransformed = 1 << 20;  // bytes of pixels that are transformed at a time: a part of L2
constexpr int64_t kMinChannels = 32;  // with fewer, transforms take longer than the products that they save
constexpr int64_t kMinTiles = 12;     // fewer do not make up for the transform of the weights
constexpr int64_t kMaxPixels = 8;     // limit of PixelFunctions::pixels
constexpr int64_t kSumPitch = kMaxPixels * kTileOut + kPanelOut;

int64_t parts_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct WinogradProduct {
  ConvolutionShape shape;
  int64_t rows = 0, columns = 0;  // tiles of an image
  int64_t tiles = 0;              // tiles of all images
  int64_t wave = 0;  // tiles that are transformed at a time, a multiple of the pixels of a product
  int64_t zeros = 0, tasks = 0, pixels = 0;  // places in scratch memory
  int64_t bytes = 0;                         // size of scratch memory

  int64_t panels() const { return parts_of(shape.out(), kPanelOut); }
  int64_t parts(int64_t panels_at_once) const { return parts_of(panels(), panels_at_once); }
  // A task multiplies half of the tiles if there is one part of weights, so that two threads have work.
  int64_t tasks_of(int64_t panels_at_once) const { return std::max<int64_t>(2, parts(panels_at_once)); }
  int64_t pixel_pitch() const { return shape.in() + kPanelOut; }
  int64_t weight_pitch(int64_t panels_at_once) const { return (panels_at_once * shape.in() + 1) * kPanelOut; }
  int64_t weight_floats(int64_t panels_at_once) const {
    return kWinogradTerms * weight_pitch(panels_at_once);
  }
  int64_t task_bytes(int64_t panels_at_once) const {
    return 4 * (weight_floats(panels_at_once) + kWinogradTerms * kSumPitch);
  }
};

WinogradProduct product_for(const KernelQuery& query) {
  WinogradProduct p{.shape = convolution_shape(query)};
  const auto& [outer, middle, inner] = p.shape.windows.axis;
  const PixelFunctions functions = pixel_functions();
  p.rows = parts_of(middle.positions, kWinogradOut), p.columns = parts_of(inner.positions, kWinogradOut);
  p.tiles = p.shape.batch * outer.positions * p.rows * p.columns;
  const int64_t groups = parts_of(p.tiles, functions.pixels);
  const int64_t most =
      std::max<int64_t>(1, kMaxTransformed / (kWinogradTerms * p.shape.in() * 4 * functions.pixels));
  p.wave = parts_of(groups, parts_of(groups, most)) * functions.pixels;
  ScratchCut cut;
  p.tasks =
      cut.take(TaskScratch::bytes_for(p.tasks_of(functions.panels), p.task_bytes(functions.panels)) / 4);
  p.zeros = cut.take(p.shape.in());
  p.pixels = cut.take(CheckedSize(p.wave) * kWinogradTerms * p.pixel_pitch());
  p.bytes = cut.bytes();
  return p;
}

// The image of a tile, and the position in it at which the tile begins.
struct TilePlace {
  int64_t image, row, column;
  TilePlace(const WinogradProduct& p, int64_t tile)
      : image(tile / p.columns / p.rows),
        row(tile / p.columns % p.rows * kWinogradOut),
        column(tile % p.columns * kWinogradOut) {}
};

void transform_tile(const WinogradProduct& p, const WinogradFunctions& functions, const float* x,
                    const float* zeros, int64_t tile, float* to) {
  const auto& [outer, middle, inner] = p.shape.windows.axis;
  const TilePlace place(p, tile);
  const float* pixels[kWinogradTerms];
  for (int64_t i = 0; i < kWinogradIn; ++i) {
    const int64_t y = middle.element(place.row, i);
    const float* row = x + (place.image * middle.size + y) * inner.size * p.shape.in();
    for (int64_t j = 0; j < kWinogradIn; ++j) {
      const int64_t at = inner.element(place.column, j);
      pixels[i * kWinogradIn + j] =
          middle.contains(y) && inner.contains(at) ? row + at * p.shape.in() : zeros;
    }
  }
  functions.transform_pixels(pixels, p.shape.in(), to, p.pixel_pitch());
}

// One task: some tiles of a wave by some panels of weights.
struct WinogradTask {
  const WinogradProduct& product;
  const PixelFunctions& functions;
  const WinogradFunctions& transforms;
  const float* pixels;  // transformed: [tiles of the wave][terms][in]
  const Epilogue& epilogue;
  float* y;
  int64_t first_panel, panels;
  float *weights, *terms;  // by term and pitch: [panels][in][kPanelOut], [kMaxPixels][kTileOut]

  int64_t in() const { return product.shape.in(); }
  int64_t first_out() const { return first_panel * kPanelOut; }
  int64_t outs() const { return std::min(panels * kPanelOut, product.shape.out() - first_out()); }

  // Multiplies `count` tiles from `at` of the wave on, which is `tile` of all.
  void multiply(int64_t at, int64_t tile, int64_t count) const {
    for (int64_t term = 0; term < kWinogradTerms; ++term) {
      const float* rows[kMaxPixels];
      for (int64_t i = 0; i < functions.pixels; ++i)
        rows[i] = pixels + ((at + std::min(i, count - 1)) * kWinogradTerms + term) * product.pixel_pitch();
      functions.multiply({.rows = rows,
                          .depth = in(),
                          .pixels = static_cast<int>(count),
                          .weights = weights + term * product.weight_pitch(panels),
                          .panel = in() * kPanelOut,
                          .panels = static_cast<int>(panels),
                          .sums = terms + term * kSumPitch});
    }
    for (int64_t i = 0; i < count; ++i) finish(TilePlace(product, tile + i), terms + i * kTileOut);
  }

 private:
  void finish(const TilePlace& place, const float* from) const {
    alignas(64) float sums[kWinogradResults * kTileOut];
    const auto& [outer, middle, inner] = product.shape.windows.axis;
    transforms.transform_sums(from, kSumPitch, panels * kPanelOut, sums);
    const int64_t out = product.shape.out(), width = std::min(kWinogradOut, inner.positions - place.column);
    for (int64_t i = 0; i < std::min(kWinogradOut, middle.positions - place.row); ++i) {
      const int64_t position =
          (place.image * middle.positions + place.row + i) * inner.positions + place.column;
      const int64_t at = position * out + first_out();
      functions.finish(sums + i * kWinogradOut * kTileOut, width, outs(), epilogue.behind(first_out(), at),
                       y + at, out);
    }
  }
};

// Multiplies the tiles [first, last) of all, whose pixels have been transformed.
void run_wave(const KernelContext& c, const WinogradProduct& p, const Epilogue& epilogue, int64_t first,
              int64_t last) {
  const PixelFunctions functions = pixel_functions();
  const WinogradFunctions transforms = winograd_functions();
  const float* weights = c.input(1).as<const float>();
  const int64_t parts = p.parts(functions.panels), panels = p.panels(), tasks = p.tasks_of(functions.panels);
  const int64_t groups = parts_of(last - first, functions.pixels), splits = tasks / parts;
  TaskScratch scratch(c.scratch + p.tasks, tasks, p.task_bytes(functions.panels));
  parallel_chunks(parts * splits, [&](int64_t index) {
    const int64_t part = index % parts, split = index / parts;
    const int64_t panel = part * panels / parts, count = (part + 1) * panels / parts - panel;
    scratch.with([&](std::byte* memory) {
      float* transformed = floats_at(memory, 0);
      transforms.transform_weights(weights + panel * 9 * p.shape.in() * kPanelOut, p.shape.in(), count,
                                   transformed, p.weight_pitch(count));
      const WinogradTask task{p,           functions,
                              transforms,  floats_at(c.scratch, p.pixels),
                              epilogue,    c.output().as<float>(),
                              panel,       count,
                              transformed, transformed + p.weight_floats(functions.panels)};
      for (int64_t group = split * groups / splits; group < (split + 1) * groups / splits; ++group) {
        const int64_t at = group * functions.pixels;
        task.multiply(at, first + at, std::min<int64_t>(functions.pixels, last - first - at));
      }
    });
  });
}

void run_winograd(const KernelContext& c) {
  const auto& p = c.prepared<WinogradProduct>();
  const WinogradFunctions transforms = winograd_functions();
  const Epilogue epilogue = epilogue_in(p.shape, c);
  const float* x = c.input(0).as<const float>();
  float *zeros = floats_at(c.scratch, p.zeros), *pixels = floats_at(c.scratch, p.pixels);
  std::fill(zeros, zeros + p.shape.in(), 0.0f);
  const int64_t tile_floats = kWinogradTerms * p.pixel_pitch();
  for (int64_t first = 0; first < p.tiles; first += p.wave) {
    const int64_t last = std::min(first + p.wave, p.tiles);
    parallel_rows(last - first, tile_floats * 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        transform_tile(p, transforms, x, zeros, first + i, pixels + i * tile_floats);
    });
    run_wave(c, p, epilogue, first, last);
  }
}

std::optional<std::string> winograd_declines(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  const auto& [outer, middle, inner] = s.windows.axis;
  const auto fits = [](const WindowAxis& a) { return a.taps == 3 && a.stride == 1 && a.dilation == 1; };
  if (!fits(middle) || !fits(inner) || outer.taps != 1 || outer.stride != 1 || outer.positions != outer.size)
    return "takes windows of 3 x 3 that move by one";
  if (s.groups > 1 || s.in() % kPanelOut != 0 || s.in() < kMinChannels || s.out() < kMinChannels)
    return "takes whole panels of at least 32 channels";
  const int64_t tiles = parts_of(middle.positions, kWinogradOut) * parts_of(inner.positions, kWinogradOut);
  if (s.batch * outer.positions * tiles < kMinTiles) return "takes 12 tiles of 4 x 4 results and more";
  if (middle.positions * inner.positions * 5 < tiles * kWinogradResults * 3)
    return "takes sizes whose tiles are results for the most part";
  return packed_declines(query);
}

}  // namespace

KernelImpl winograd_convolution() {
  return {.name = "winograd",
          .run = run_winograd,
          .can_run = winograd_declines,
          .scratch_bytes = [](const KernelQuery& query) { return product_for(query).bytes; },
          .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
            return std::make_shared<WinogradProduct>(product_for(query));
          }};
}

}  // namespace genesis::cpu
