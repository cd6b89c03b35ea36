// Convolutions of f32 images whose channels are last by windows of 3 x 3 that move by one, with packed weights: Winograd's products
// of tiles. Weights are transformed once in every run, some panels at a time: transformed ones are four times as large, so reading
// them from memory would take longer. A tile with a result that is not finite is computed again by plain sums, because transforms
// overflow earlier than these and spread an infinite or NaN pixel over the whole tile.
#include <tbb/task_arena.h>

#include <algorithm>

#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/operands.h"
#include "backends/cpu/convolution/winograd_tiles.h"
#include "backends/cpu/parallel/task_scratch.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kMaxPixelBytes = 4 << 20;   // bytes of pixels that are transformed at a time
constexpr int64_t kMaxWeightBytes = 8 << 20;  // the same of weights, in all parts of a round
constexpr int64_t kMaxPartBytes = 5 << 20;  // the same, in one part: the panels that a product takes together
constexpr int64_t kMaxPanelBytes = 2 << 20;  // the same, in one panel: a part of L2
constexpr int64_t kMinChannels = 32;  // with fewer, transforms take longer than the products that they save
constexpr int64_t kMinTiles = 12;     // fewer do not make up for the transform of the weights
constexpr int64_t kMaxPixels = 8;     // limit of PixelFunctions::pixels
constexpr int64_t kTaps = 9;
constexpr int64_t kSumPitch = kMaxPixels * kTileOut + kPanelOut;
constexpr int64_t kTaskBytes = 4 * kWinogradTerms * kSumPitch;

int64_t parts_of(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t panel_bytes(const ConvolutionShape& s) { return kWinogradTerms * s.in() * kPanelOut * 4; }

// Tiles are multiplied in groups, weights in parts of panels. A wave of tiles and a round of parts are transformed at a time.
struct WinogradProduct {
  ConvolutionShape shape;
  int64_t rows = 0, columns = 0;                          // tiles of an image
  int64_t tiles = 0;                                      // tiles of all images
  int64_t wave = 0;                                       // a multiple of the pixels of a product
  int64_t panels_at_once = 0;                             // most panels of a part
  int64_t most_parts = 0;                                 // A round has no more.
  int64_t zeros = 0, tasks = 0, pixels = 0, weights = 0;  // places in scratch memory
  int64_t bytes = 0;                                      // size of scratch memory

  int64_t panels() const { return parts_of(shape.out(), kPanelOut); }
  int64_t parts() const { return parts_of(panels(), panels_at_once); }
  int64_t first_panel(int64_t part) const { return part * panels() / parts(); }
  int64_t pixel_pitch() const { return shape.in() + kPanelOut; }
  int64_t weight_pitch() const { return (panels_at_once * shape.in() + 1) * kPanelOut; }
  int64_t part_floats() const { return kWinogradTerms * weight_pitch(); }
  // One thread multiplies weights while they are in its cache. Rounds are as large as possible if each transforms all pixels.
  int64_t parts_at_once() const {
    if (wave < tiles) return most_parts;
    return std::min<int64_t>(most_parts, tbb::this_task_arena::max_concurrency());
  }
};

WinogradProduct product_for(const KernelQuery& query) {
  WinogradProduct p{.shape = convolution_shape(query)};
  const auto& [outer, middle, inner] = p.shape.windows.axis;
  const PixelFunctions functions = pixel_functions();
  p.rows = parts_of(middle.positions, kWinogradOut), p.columns = parts_of(inner.positions, kWinogradOut);
  p.tiles = p.shape.batch * outer.positions * p.rows * p.columns;
  const int64_t groups = parts_of(p.tiles, functions.pixels), tile_bytes = kWinogradTerms * p.shape.in() * 4;
  const int64_t most = std::max<int64_t>(1, kMaxPixelBytes / (tile_bytes * functions.pixels));
  p.wave = parts_of(groups, parts_of(groups, most)) * functions.pixels;
  p.panels_at_once = std::clamp<int64_t>(kMaxPartBytes / panel_bytes(p.shape), 1,
                                         std::min<int64_t>(functions.panels, p.panels()));
  p.most_parts = std::clamp<int64_t>(kMaxWeightBytes / (p.part_floats() * 4), 1, p.parts());
  const int64_t tasks = p.wave / functions.pixels * p.most_parts;
  ScratchCut cut;
  p.tasks = cut.take(TaskScratch::bytes_for(tasks, kTaskBytes) / 4);
  p.zeros = cut.take(p.shape.in());
  p.pixels = cut.take(CheckedSize(p.wave) * kWinogradTerms * p.pixel_pitch());
  p.weights = cut.take(CheckedSize(p.most_parts) * p.part_floats());
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

// The pixels of x, surrounded by zeros.
struct PaddedImages {
  const WinogradProduct& product;
  const float *x, *zeros;

  // Returns the pixel that tap (i, j) meets at the position (row, column) of an image.
  const float* pixel(const TilePlace& place, int64_t i, int64_t j) const {
    const auto& [outer, middle, inner] = product.shape.windows.axis;
    const int64_t row = middle.element(place.row, i), column = inner.element(place.column, j);
    if (!middle.contains(row) || !inner.contains(column)) return zeros;
    return x + ((place.image * middle.size + row) * inner.size + column) * product.shape.in();
  }
};

void transform_tile(const PaddedImages& images, const WinogradFunctions& functions, int64_t tile, float* to) {
  const WinogradProduct& p = images.product;
  const TilePlace place(p, tile);
  const float* pixels[kWinogradTerms];
  for (int64_t i = 0; i < kWinogradTerms; ++i)
    pixels[i] = images.pixel(place, i / kWinogradIn, i % kWinogradIn);
  functions.transform_pixels(pixels, p.shape.in(), to, p.pixel_pitch());
}

// One task: a group of tiles by a part of the weights.
struct WinogradTask {
  const PaddedImages& images;
  const PixelFunctions& functions;
  const WinogradFunctions& transforms;
  const Epilogue& epilogue;
  const float* plain;  // packed weights of all panels
  float* y;
  int64_t first_panel, panels;
  const float *pixels,
      *weights;  // transformed: [tiles][terms][in], by term and pitch [panels][in][kPanelOut]
  float* terms;  // by term and pitch: [kMaxPixels][kTileOut]

  const WinogradProduct& product() const { return images.product; }
  int64_t in() const { return product().shape.in(); }
  int64_t first_out() const { return first_panel * kPanelOut; }
  int64_t outs() const { return std::min(panels * kPanelOut, product().shape.out() - first_out()); }

  // Multiplies `count` tiles, of which `tile` is the first.
  void multiply(int64_t tile, int64_t count) const {
    for (int64_t term = 0; term < kWinogradTerms; ++term) {
      const float* rows[kMaxPixels];
      for (int64_t i = 0; i < functions.pixels; ++i)
        rows[i] = pixels + (std::min(i, count - 1) * kWinogradTerms + term) * product().pixel_pitch();
      functions.multiply({.rows = rows,
                          .depth = in(),
                          .pixels = static_cast<int>(count),
                          .weights = weights + term * product().weight_pitch(),
                          .panel = in() * kPanelOut,
                          .panels = static_cast<int>(panels),
                          .sums = terms + term * kSumPitch});
    }
    for (int64_t i = 0; i < count; ++i) finish(TilePlace(product(), tile + i), terms + i * kTileOut);
  }

 private:
  void finish(const TilePlace& place, const float* from) const {
    alignas(64) float sums[(kWinogradResults + kMaxPixels) * kTileOut];  // a product writes whole tiles of pixels
    const auto& [outer, middle, inner] = product().shape.windows.axis;
    const bool are_finite = transforms.transform_sums(from, kSumPitch, panels * kPanelOut, sums);
    const int64_t out = product().shape.out(), width = std::min(kWinogradOut, inner.positions - place.column);
    for (int64_t i = 0; i < std::min(kWinogradOut, middle.positions - place.row); ++i) {
      if (!are_finite) sum_plainly(place, i, width, sums + i * kWinogradOut * kTileOut);
      const int64_t position =
          (place.image * middle.positions + place.row + i) * inner.positions + place.column;
      const int64_t at = position * out + first_out();
      functions.finish(sums + i * kWinogradOut * kTileOut, width, outs(), epilogue.behind(first_out(), at),
                       y + at, out);
    }
  }

  // Computes the sums of row `i` of a tile from its pixels as they are.
  void sum_plainly(const TilePlace& place, int64_t i, int64_t width, float* sums) const {
    const int64_t at_once = std::min<int64_t>(functions.pixels, kWinogradOut);
    for (int64_t first = 0; first < width; first += at_once) {
      const int64_t count = std::min(at_once, width - first);
      const float* rows[kTaps * kMaxPixels];
      for (int64_t tap = 0; tap < kTaps; ++tap)
        for (int64_t k = 0; k < functions.pixels; ++k)
          rows[tap * functions.pixels + k] =
              images.pixel(place, i + tap / 3, first + std::min(k, count - 1) + tap % 3);
      functions.multiply({.rows = rows,
                          .taps = kTaps,
                          .depth = in(),
                          .pixels = static_cast<int>(count),
                          .weights = plain + first_panel * kTaps * in() * kPanelOut,
                          .panel = kTaps * in() * kPanelOut,
                          .panels = static_cast<int>(panels),
                          .sums = sums + first * kTileOut});
    }
  }
};

// One run of the kernel.
class WinogradRun {
 public:
  explicit WinogradRun(const KernelContext& c)
      : c_(c),
        product_(c.prepared<WinogradProduct>()),
        epilogue_(epilogue_in(product_.shape, c)),
        images_{product_, c.input(0).as<const float>(), floats_at(c.scratch, product_.zeros)},
        weights_(c.input(1).as<const float>()) {}

  void run() const {
    float* zeros = floats_at(c_.scratch, product_.zeros);
    std::fill(zeros, zeros + product_.shape.in(), 0.0f);
    const int64_t parts = product_.parts(), at_once = product_.parts_at_once();
    for (int64_t part = 0; part < parts; part += at_once) {
      const int64_t end = std::min(part + at_once, parts);
      transform_weights(part, end);
      for (int64_t first = 0; first < product_.tiles; first += product_.wave) {
        const int64_t last = std::min(first + product_.wave, product_.tiles);
        if (part == 0 || product_.wave < product_.tiles) transform_pixels(first, last);
        multiply(part, end, first, last);
      }
    }
  }

 private:
  const float* weights_of(int64_t panel) const {
    return weights_ + panel * kTaps * product_.shape.in() * kPanelOut;
  }
  float* transformed_weights(int64_t part) const {
    return floats_at(c_.scratch, product_.weights) + part * product_.part_floats();
  }
  float* transformed_pixels(int64_t tile) const {
    return floats_at(c_.scratch, product_.pixels) + tile * kWinogradTerms * product_.pixel_pitch();
  }

  void transform_weights(int64_t first_part, int64_t end_part) const {
    const int64_t in = product_.shape.in(), at_once = product_.panels_at_once;
    parallel_rows(
        (end_part - first_part) * at_once, panel_bytes(product_.shape), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t part = first_part + i / at_once, panel = product_.first_panel(part) + i % at_once;
            if (panel >= product_.first_panel(part + 1)) continue;
            transforms_.transform_weights(
                weights_of(panel), in, 1,
                transformed_weights(part - first_part) + i % at_once * in * kPanelOut,
                product_.weight_pitch());
          }
        });
  }

  void transform_pixels(int64_t first, int64_t last) const {
    parallel_rows(last - first, kWinogradTerms * product_.pixel_pitch() * 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        transform_tile(images_, transforms_, first + i, transformed_pixels(i));
    });
  }

  // Multiplies the tiles [first, last) by some parts, all of which have been transformed.
  void multiply(int64_t first_part, int64_t end_part, int64_t first, int64_t last) const {
    const int64_t groups = parts_of(last - first, functions_.pixels),
                  tasks = (end_part - first_part) * groups;
    TaskScratch scratch(c_.scratch + product_.tasks, tasks, kTaskBytes);
    parallel_chunks(tasks, [&](int64_t index) {
      const int64_t part = index / groups, at = index % groups * functions_.pixels;
      const int64_t panel = product_.first_panel(first_part + part);
      scratch.with([&](std::byte* memory) {
        const WinogradTask task{images_,
                                functions_,
                                transforms_,
                                epilogue_,
                                weights_,
                                c_.output().as<float>(),
                                panel,
                                product_.first_panel(first_part + part + 1) - panel,
                                transformed_pixels(at),
                                transformed_weights(part),
                                floats_at(memory, 0)};
        task.multiply(first + at, std::min<int64_t>(functions_.pixels, last - first - at));
      });
    });
  }

  const KernelContext& c_;
  const WinogradProduct& product_;
  const PixelFunctions functions_ = pixel_functions();
  const WinogradFunctions transforms_ = winograd_functions();
  const Epilogue epilogue_;
  const PaddedImages images_;
  const float* weights_;
};

void run_winograd(const KernelContext& c) { WinogradRun(c).run(); }

std::optional<std::string> winograd_declines(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  const auto& [outer, middle, inner] = s.windows.axis;
  const auto fits = [](const WindowAxis& a) { return a.taps == 3 && a.stride == 1 && a.dilation == 1; };
  if (!fits(middle) || !fits(inner) || outer.taps != 1 || outer.stride != 1 || outer.positions != outer.size)
    return "takes windows of 3 x 3 that move by one";
  if (s.groups > 1 || s.in() % kPanelOut != 0 || s.in() < kMinChannels || s.out() < kMinChannels)
    return "takes whole panels of at least 32 channels";
  if (panel_bytes(s) > kMaxPanelBytes) return "takes at most 910 channels: L2 holds a panel of weights";
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
