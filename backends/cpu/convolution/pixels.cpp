// Convolutions of f32 images whose channels are last, with packed weights: a product of pixels by weights in which the rows of a tap
// are read where they lie in the image (an indirect product, as in XNNPACK).
#include <algorithm>
#include <cstring>

#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/operands.h"
#include "backends/cpu/convolution/pixel_tiles.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kMaxMergedChannels = 8;  // taps of a row are one run of numbers if pixels have so few
constexpr int64_t kChunkBytes =
    512 << 10;  // pixels that meet one panel of weights after another: a part of L2
constexpr int64_t kMinChunkTiles = 8;
constexpr double kTaskSums = 1 << 20;  // a task adds so many products: it takes some 15 us
constexpr double kMaxTasks = 16;

int64_t pieces_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct PixelProduct {
  ConvolutionShape shape;
  int64_t depth = 1;    // floats that a tap meets
  bool merges = false;  // the taps of the last axis are one, over rows with their padding in scratch memory
  bool is_direct = false;                    // pixel i of the result is made of pixel i
  int64_t row = 0;                           // floats of a row of x, or of a copied one
  int64_t copies = 0, zeros = 0, bytes = 0;  // places in scratch memory, and its size

  int64_t taps() const {
    const auto& [outer, middle, inner] = shape.windows.axis;
    return outer.taps * middle.taps * (merges ? 1 : inner.taps);
  }
  int64_t pixels() const { return shape.batch * shape.windows.positions(); }
  int64_t rows() const { return shape.batch * shape.windows.axis[0].size * shape.windows.axis[1].size; }
  int64_t group_panels() const { return pieces_of(shape.out_each, kPanelOut); }
  int64_t panel() const { return shape.depth() * kPanelOut; }
};

PixelProduct product_of(const KernelQuery& query) {
  PixelProduct p{.shape = convolution_shape(query)};
  const ConvolutionShape& s = p.shape;
  const WindowAxis& inner = s.windows.axis[2];
  const auto moves_nothing = [](const WindowAxis& a) {
    return a.taps == 1 && a.stride == 1 && a.begin == 0 && a.positions == a.size;
  };
  p.is_direct = std::ranges::all_of(s.windows.axis, moves_nothing);
  p.merges = s.in() <= kMaxMergedChannels && s.groups == 1 && inner.taps > 1 && inner.dilation == 1;
  p.depth = s.in_each * (p.merges ? inner.taps : 1);
  p.row = s.in() * (p.merges ? (inner.positions - 1) * inner.stride + inner.taps : inner.size);
  ScratchCut cut;
  if (p.merges) p.copies = cut.take(CheckedSize(p.rows()) * p.row);
  p.zeros = cut.take(p.depth);
  p.bytes = cut.bytes();
  return p;
}

// Copies rows with their padding, so that the taps of a row are contiguous.
void copy_rows(const PixelProduct& p, const float* x, float* to) {
  const WindowAxis& inner = p.shape.windows.axis[2];
  const int64_t channels = p.shape.in(), pixels = p.row / channels;
  const int64_t first = std::clamp<int64_t>(inner.begin, 0, pixels),
                last = std::clamp<int64_t>(inner.begin + inner.size, first, pixels);
  parallel_rows(p.rows(), p.row * 4, [&](int64_t from, int64_t end) {
    for (int64_t i = from; i < end; ++i) {
      float* row = to + i * p.row;
      std::fill(row, row + first * channels, 0.0f);
      std::copy_n(x + (i * inner.size + first - inner.begin) * channels, (last - first) * channels,
                  row + first * channels);
      std::fill(row + last * channels, row + p.row, 0.0f);
    }
  });
}

// Writes where each tap of a pixel begins: rows[tap * stride].
void list_taps(const PixelProduct& p, const float* x, const float* zeros, int64_t pixel, int64_t stride,
               const float** rows) {
  if (p.is_direct) {
    *rows = x + pixel * p.shape.in();
    return;
  }
  const auto& [outer, middle, inner] = p.shape.windows.axis;
  const int64_t channels = p.shape.in(), x2 = pixel % inner.positions, rest = pixel / inner.positions,
                x1 = rest % middle.positions, x0 = rest / middle.positions % outer.positions,
                image = rest / middle.positions / outer.positions;
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1) {
      const int64_t z = outer.element(x0, t0), y = middle.element(x1, t1);
      const bool is_inside = outer.contains(z) && middle.contains(y);
      const float* row = x + ((image * outer.size + z) * middle.size + y) * p.row;
      if (p.merges) {
        *rows = is_inside ? row + x2 * inner.stride * channels : zeros;
        rows += stride;
        continue;
      }
      for (int64_t t2 = 0; t2 < inner.taps; ++t2, rows += stride) {
        const int64_t at = inner.element(x2, t2);
        *rows = is_inside && inner.contains(at) ? row + at * channels : zeros;
      }
    }
}

// Writes the taps of all pixels of a tile that lie side by side and whose windows meet no padding along the last axis: rows[tap *
// pixels]. Returns false for other tiles.
bool list_inner_taps(const PixelProduct& p, const float* x, const float* zeros, int64_t first, int64_t pixels,
                     const float** rows) {
  const auto& [outer, middle, inner] = p.shape.windows.axis;
  const int64_t x2 = first % inner.positions, rest = first / inner.positions;
  if (x2 + pixels > inner.positions) return false;
  if (!p.merges && (inner.element(x2, 0) < 0 || inner.element(x2 + pixels - 1, inner.taps - 1) >= inner.size))
    return false;
  const int64_t channels = p.shape.in(), x1 = rest % middle.positions,
                x0 = rest / middle.positions % outer.positions,
                image = rest / middle.positions / outer.positions;
  const int64_t taps = p.merges ? 1 : inner.taps, begin = p.merges ? x2 * inner.stride : inner.element(x2, 0);
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1) {
      const int64_t z = outer.element(x0, t0), y = middle.element(x1, t1);
      const bool is_inside = outer.contains(z) && middle.contains(y);
      const float* row = x + ((image * outer.size + z) * middle.size + y) * p.row;
      const int64_t step = is_inside ? inner.stride * channels : 0;
      for (int64_t t2 = 0; t2 < taps; ++t2) {
        const float* at = is_inside ? row + (begin + t2 * inner.dilation) * channels : zeros;
        for (int64_t i = 0; i < pixels; ++i) *rows++ = at + i * step;
      }
    }
  return true;
}

// One task: some tiles of pixels by some panels of one group.
struct PixelTask {
  const PixelProduct& product;
  const PixelFunctions& functions;
  const float *x, *zeros, *weights;  // begin at the group
  const Epilogue& epilogue;          // for all outputs
  float* y;
  int64_t first_out, outs;  // counted over all groups

  void run(int64_t tile, int64_t end) const {
    const float* rows[kMaxPixelTaps * 8];
    for (; tile < end; ++tile) multiply(tile * functions.pixels, rows);
  }

 private:
  void multiply(int64_t first, const float** rows) const {
    alignas(64) float sums[8 * kTileOut];
    const int64_t pixels = std::min<int64_t>(functions.pixels, product.pixels() - first);
    const bool is_listed = pixels == functions.pixels && !product.is_direct &&
                           list_inner_taps(product, x, zeros, first, pixels, rows);
    for (int64_t i = 0; !is_listed && i < functions.pixels; ++i)
      list_taps(product, x, zeros, first + std::min(i, pixels - 1), functions.pixels, rows + i);
    const int64_t out = product.shape.out(), at = first * out + first_out;
    const bool finishes = pixels == functions.pixels && functions.finishes(epilogue.activation);
    functions.multiply({.rows = rows,
                        .taps = product.taps(),
                        .depth = product.depth,
                        .pixels = static_cast<int>(pixels),
                        .weights = weights,
                        .panel = product.panel(),
                        .panels = static_cast<int>(pieces_of(outs, kPanelOut)),
                        .sums = finishes ? nullptr : sums,
                        .results = {epilogue.behind(first_out, at), y + at, out, outs}});
    if (!finishes) functions.finish(sums, pixels, outs, epilogue.behind(first_out, at), y + at, out);
  }
};

// Returns the tiles of a task. Large products are cut into enough tasks for several threads.
int64_t chunk_tiles(const PixelProduct& p, const PixelFunctions& functions, int64_t tiles, int64_t parts) {
  const ConvolutionShape& s = p.shape;
  const int64_t most =
      std::max(kMinChunkTiles, kChunkBytes / (functions.pixels * 4 * std::max<int64_t>(1, s.in_each)));
  const double sums = static_cast<double>(p.pixels()) * static_cast<double>(s.out() * s.depth());
  const auto tasks = static_cast<int64_t>(std::clamp(sums / kTaskSums, 1.0, kMaxTasks));
  const int64_t wanted = pieces_of(tasks, s.groups * parts);
  return pieces_of(tiles, std::min(tiles, std::max(pieces_of(tiles, most), wanted)));
}

void run_pixels(const KernelContext& c) {
  const auto& p = c.prepared<PixelProduct>();
  const ConvolutionShape& s = p.shape;
  const PixelFunctions functions = pixel_functions();
  const Epilogue epilogue = epilogue_in(s, c);
  const float* x = c.input(0).as<const float>();
  float* zeros = floats_at(c.scratch, p.zeros);
  std::fill(zeros, zeros + p.depth, 0.0f);
  if (p.merges) {
    copy_rows(p, x, floats_at(c.scratch, p.copies));
    x = floats_at(c.scratch, p.copies);
  }
  const int64_t panels = p.group_panels(), parts = pieces_of(panels, functions.panels);
  const int64_t tiles = pieces_of(p.pixels(), functions.pixels);
  const int64_t chunk = chunk_tiles(p, functions, tiles, parts), chunks = pieces_of(tiles, chunk);
  parallel_chunks(chunks * s.groups * parts, [&](int64_t index) {
    const int64_t part = index % parts, group = index / parts % s.groups,
                  first = index / parts / s.groups * chunk;
    const int64_t panel = part * panels / parts, last = (part + 1) * panels / parts;
    const int64_t out = group * s.out_each + panel * kPanelOut;
    PixelTask{p,
              functions,
              x + group * s.in_each,
              zeros,
              c.input(1).as<const float>() + (group * panels + panel) * p.panel(),
              epilogue,
              c.output().as<float>(),
              out,
              std::min(last * kPanelOut, s.out_each) - panel * kPanelOut}
        .run(first, std::min(first + chunk, tiles));
  });
}

std::optional<std::string> pixels_decline(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (s.groups > 1 && s.out_each % kPanelOut != 0) return "takes groups of whole panels";
  return packed_declines(query);
}

}  // namespace

std::optional<std::string> packed_declines(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (!s.is_packed) return "takes packed weights";
  if (s.windows.taps() > kMaxPixelTaps) return "takes windows of at most 256 elements";
  const auto is_f32 = [](const TensorType& type) { return type.dtype == DType::f32; };
  if (!std::ranges::all_of(query.inputs, is_f32)) return "takes f32";
  if (s.batch * s.in() * s.out() * s.windows.elements() == 0) return "takes tensors with elements";
  return std::nullopt;
}

Epilogue epilogue_in(const ConvolutionShape& s, const KernelContext& c) {
  Epilogue epilogue{.activation = s.activation};
  if (s.has_scale) epilogue.scale = c.input(2).as<const float>();
  if (s.has_bias) epilogue.bias = c.input(static_cast<int>(s.bias_input())).as<const float>();
  if (s.has_addend) epilogue.addend = c.input(static_cast<int>(s.addend_input())).as<const float>();
  return epilogue;
}

KernelImpl pixel_convolution() {
  return {.name = "pixels",
          .run = run_pixels,
          .can_run = pixels_decline,
          .scratch_bytes = [](const KernelQuery& query) { return product_of(query).bytes; },
          .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
            return std::make_shared<PixelProduct>(product_of(query));
          }};
}

}  // namespace genesis::cpu
