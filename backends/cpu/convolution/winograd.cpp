// Convolutions with windows of 3 x 3 by Winograd's algorithm F(4x4, 3x3): Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015. A tile of 4 x 4 results takes 36 products of a weight by an element instead of 144. With the transforms
// V = B' d B of tiles of 6 x 6 elements and U = G g G' of weights, the result is A' (sum over channels of U * V) A. Its rounding
// errors are some ten times those of a sum of products: up to 2e-5 of the largest result with 256 channels.
#include <algorithm>

#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/operands.h"
#include "backends/cpu/convolution/tiles.h"

namespace genesis::cpu {
namespace {

constexpr int kTile = 4, kSide = 6, kTerms = kSide * kSide;
constexpr int kGroup = 16;  // tiles or weights that are transformed side by side
constexpr int64_t kMinTiles = 16, kMinChannels = 32;
constexpr int64_t kChunkBytes = 8 << 20;  // transforms of the images that are computed at a time

using Lanes = std::array<float, kGroup>;

struct Winograd {
  ConvolutionShape shape;
  TileFunctions functions;
  int64_t tiles_down = 1, tiles_across = 1, chunk = 1;   // chunk: images
  int64_t weights = 0, inputs = 0, sums = 0, bytes = 0;  // offsets in scratch memory

  int64_t tiles() const { return tiles_down * tiles_across; }
  int64_t panel() const { return kMaxVectors * functions.lanes; }  // columns of a panel: one for each tile
  // Floats of one of the 36 matrices [panels][channels][columns of a panel].
  int64_t input_size(int64_t columns) const {
    return (columns + functions.lanes - 1) / functions.lanes * functions.lanes * shape.in();
  }
};

Winograd winograd_of(const KernelQuery& query) {
  Winograd w{.shape = convolution_shape(query), .functions = tile_functions()};
  const ConvolutionShape& s = w.shape;
  w.tiles_down = (s.windows.axis[1].positions + kTile - 1) / kTile;
  w.tiles_across = (s.windows.axis[2].positions + kTile - 1) / kTile;
  const int64_t each = (CheckedSize(s.in() + s.out()) * w.tiles() * kTerms * 4).value();
  w.chunk = std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(each, 1), 1, std::max<int64_t>(s.batch, 1));
  ScratchCut cut;
  const int64_t columns = w.chunk * w.tiles();
  w.weights = cut.take(CheckedSize(s.out()) * s.in() * kTerms);
  w.inputs = cut.take(CheckedSize(w.input_size(columns)) * kTerms);
  w.sums = cut.take(CheckedSize(s.out()) * columns * kTerms);
  w.bytes = cut.bytes();
  return w;
}

std::optional<std::string> winograd_declines(const KernelQuery& query) {
  if (const auto reason = tiles_decline(query)) return reason;
  const ConvolutionShape s = convolution_shape(query);
  const auto& [outer, middle, inner] = s.windows.axis;
  const auto fits = [](const WindowAxis& a) { return a.taps == 3 && a.stride == 1 && a.dilation == 1; };
  if (s.dtype != DType::f32) return "takes f32";
  if (s.groups != 1 || outer.size != 1 || outer.taps != 1 || outer.positions != 1 || !fits(middle) ||
      !fits(inner))
    return "takes windows of 3 x 3 without stride, dilation and groups";
  if (std::min(s.in(), s.out()) < kMinChannels) return "takes 32 channels and more";
  const Winograd w = winograd_of(query);
  if (w.chunk * w.tiles() < kMinTiles)
    return "takes 16 tiles of 4 x 4 results and more: weights are transformed in every run";
  return std::nullopt;
}

// --- the three transforms of a column or row, in place of the matrices B', G and A'

void transform_input(const Lanes* d, int step, Lanes* to, int to_step) {
  for (int i = 0; i < kGroup; ++i) {
    const float d0 = d[0][i], d1 = d[step][i], d2 = d[2 * step][i], d3 = d[3 * step][i], d4 = d[4 * step][i],
                d5 = d[5 * step][i];
    to[0][i] = 4 * d0 - 5 * d2 + d4;
    to[to_step][i] = d4 + d3 - 4 * (d1 + d2);
    to[2 * to_step][i] = d4 - d3 + 4 * (d1 - d2);
    to[3 * to_step][i] = d4 - d2 + 2 * (d3 - d1);
    to[4 * to_step][i] = d4 - d2 - 2 * (d3 - d1);
    to[5 * to_step][i] = 4 * d1 - 5 * d3 + d5;
  }
}

void transform_weight(const Lanes* g, int step, Lanes* to, int to_step) {
  for (int i = 0; i < kGroup; ++i) {
    const float g0 = g[0][i], g1 = g[step][i], g2 = g[2 * step][i];
    const float even = (g0 + g2) * (-1.0f / 6), odd = g1 * (1.0f / 6);
    const float far = g0 * (1.0f / 24) + g2 * (1.0f / 6), far_odd = g1 * (1.0f / 12);
    to[0][i] = g0 * 0.25f;
    to[to_step][i] = even - odd;
    to[2 * to_step][i] = even + odd;
    to[3 * to_step][i] = far + far_odd;
    to[4 * to_step][i] = far - far_odd;
    to[5 * to_step][i] = g2;
  }
}

void transform_output(const Lanes* m, int step, Lanes* to, int to_step) {
  for (int i = 0; i < kGroup; ++i) {
    const float sum = m[step][i] + m[2 * step][i], difference = m[step][i] - m[2 * step][i];
    const float far_sum = m[3 * step][i] + m[4 * step][i], far_difference = m[3 * step][i] - m[4 * step][i];
    to[0][i] = m[0][i] + sum + far_sum;
    to[to_step][i] = difference + 2 * far_difference;
    to[2 * to_step][i] = sum + 4 * far_sum;
    to[3 * to_step][i] = difference + 8 * far_difference + m[5 * step][i];
  }
}

// --- weights [out][in][3][3] -> [36][out][in]

void transform_weights(const Winograd& w, const float* weights, float* to) {
  const int64_t in = w.shape.in(), out = w.shape.out();
  parallel_rows(out, in * kTerms * 8, [&](int64_t first, int64_t last) {
    for (int64_t o = first; o < last; ++o)
      for (int64_t i = 0; i < in; i += kGroup) {
        const int64_t count = std::min<int64_t>(kGroup, in - i);
        Lanes g[9] = {}, half[3 * kSide], u[kTerms];
        for (int64_t k = 0; k < count; ++k)
          for (int64_t tap = 0; tap < 9; ++tap)
            g[tap][static_cast<size_t>(k)] = weights[(o * in + i + k) * 9 + tap];
        for (int column = 0; column < 3; ++column) transform_weight(g + column, 3, half + column, 3);
        for (int row = 0; row < kSide; ++row) transform_weight(half + 3 * row, 1, u + kSide * row, 1);
        for (int term = 0; term < kTerms; ++term)
          std::copy_n(u[term].data(), count, to + (term * out + o) * in + i);
      }
  });
}

// --- elements: tile t of a chunk is column t

struct TilePlace {
  int64_t image, y, x;  // its first position

  TilePlace(const Winograd& w, int64_t tile)
      : image(tile / w.tiles()),
        y(tile % w.tiles() / w.tiles_across * kTile),
        x(tile % w.tiles_across * kTile) {}
};

// Copies a tile of 6 x 6 elements of a channel, with zeros for padding, to one lane.
void copy_tile(const Winograd& w, const float* plane, const TilePlace& at, Lanes* to, size_t lane) {
  const auto& [outer, middle, inner] = w.shape.windows.axis;
  for (int64_t r = 0; r < kSide; ++r) {
    const int64_t y = at.y + r - middle.begin;
    for (int64_t c = 0; c < kSide; ++c) {
      const int64_t x = at.x + c - inner.begin;
      const bool inside = middle.contains(y) && inner.contains(x);
      to[r * kSide + c][lane] = inside ? plane[y * inner.size + x] : 0;
    }
  }
}

void transform_inputs(const Winograd& w, const float* x, int64_t columns, float* to) {
  const ConvolutionShape& s = w.shape;
  const int64_t size = w.input_size(columns), lanes = w.functions.lanes;
  parallel_rows(s.in(), columns * kTerms * 8, [&](int64_t first, int64_t last) {
    for (int64_t channel = first; channel < last; ++channel)
      for (int64_t tile = 0, count = 0; tile < columns; tile += count) {
        count = std::min({int64_t{kGroup}, columns - tile, w.panel() - tile % w.panel()});
        Lanes d[kTerms] = {}, half[kTerms], v[kTerms];
        for (int64_t k = 0; k < count; ++k) {
          const TilePlace at(w, tile + k);
          copy_tile(w, x + (at.image * s.in() + channel) * s.windows.elements(), at, d,
                    static_cast<size_t>(k));
        }
        for (int column = 0; column < kSide; ++column)
          transform_input(d + column, kSide, half + column, kSide);
        for (int row = 0; row < kSide; ++row) transform_input(half + kSide * row, 1, v + kSide * row, 1);
        const int64_t panel = tile / w.panel() * w.panel();
        const int64_t width = std::min(w.panel(), (columns - panel + lanes - 1) / lanes * lanes);
        float* at = to + panel * s.in() + channel * width + tile - panel;
        for (int term = 0; term < kTerms; ++term) std::copy_n(v[term].data(), count, at + term * size);
      }
  });
}

// sums [36][out][columns]: one product for each of the 36 terms.
void multiply(const Winograd& w, const float* weights, const float* inputs, int64_t columns, float* sums) {
  const int64_t in = w.shape.in(), out = w.shape.out(), rows = w.functions.rows, lanes = w.functions.lanes;
  const int64_t blocks = (out + rows - 1) / rows, each = 8;  // row blocks of a task
  const int64_t parts = (blocks + each - 1) / each;
  parallel_chunks(kTerms * parts, [&](int64_t task) {
    const int64_t term = task / parts, begin = task % parts * each * rows;
    for (int64_t panel = 0; panel < columns; panel += w.panel()) {
      const int64_t count = std::min(w.panel(), columns - panel);
      for (int64_t row = begin; row < std::min(out, begin + each * rows); row += rows)
        w.functions.multiply({.depth = in,
                              .a = weights + (term * out + row) * in,
                              .lda = in,
                              .rows = static_cast<int>(std::min(rows, out - row)),
                              .b = inputs + term * w.input_size(columns) + panel * in,
                              .vectors = static_cast<int>((count + lanes - 1) / lanes),
                              .columns = count,
                              .c = sums + (term * out + row) * columns + panel,
                              .ldc = columns});
    }
  });
}

// Transforms the sums of one output channel back, and applies the epilogue of the channel.
void finish_channel(const Winograd& w, const float* sums, int64_t out, int64_t columns, float* y) {
  const ConvolutionShape& s = w.shape;
  const int64_t height = s.windows.axis[1].positions, width = s.windows.axis[2].positions;
  for (int64_t tile = 0; tile < columns; tile += kGroup) {
    const int64_t count = std::min<int64_t>(kGroup, columns - tile);
    Lanes m[kTerms] = {}, half[kTile * kSide], results[kTile * kTile];
    for (int term = 0; term < kTerms; ++term)
      std::copy_n(sums + (term * s.out() + out) * columns + tile, count, m[term].data());
    for (int column = 0; column < kSide; ++column) transform_output(m + column, kSide, half + column, kSide);
    for (int row = 0; row < kTile; ++row) transform_output(half + kSide * row, 1, results + kTile * row, 1);
    for (int64_t k = 0; k < count; ++k) {
      const TilePlace at(w, tile + k);
      float* plane = y + (at.image * s.out() + out) * s.windows.positions();
      for (int64_t r = 0; r < std::min<int64_t>(kTile, height - at.y); ++r)
        for (int64_t c = 0; c < std::min<int64_t>(kTile, width - at.x); ++c)
          plane[(at.y + r) * width + at.x + c] = results[r * kTile + c][static_cast<size_t>(k)];
    }
  }
}

Epilogue epilogue_of(const ConvolutionShape& s, const KernelContext& c) {
  Epilogue epilogue{.activation = s.activation};
  if (s.has_scale) epilogue.scale = c.input(2).as<const float>();
  if (s.has_bias) epilogue.bias = c.input(static_cast<int>(s.bias_input())).as<const float>();
  if (s.has_addend) epilogue.addend = c.input(static_cast<int>(s.addend_input())).as<const float>();
  return epilogue;
}

void run_winograd(const KernelContext& c) {
  const auto& w = c.prepared<Winograd>();
  const ConvolutionShape& s = w.shape;
  const int64_t positions = s.windows.positions();
  float *weights = floats_at(c.scratch, w.weights), *inputs = floats_at(c.scratch, w.inputs),
        *sums = floats_at(c.scratch, w.sums);
  const Epilogue epilogue = epilogue_of(s, c);
  transform_weights(w, c.input(1).as<const float>(), weights);
  for (int64_t image = 0; image < s.batch; image += w.chunk) {
    const int64_t images = std::min(w.chunk, s.batch - image), columns = images * w.tiles();
    const float* x = c.input(0).as<const float>() + image * s.in() * s.windows.elements();
    float* y = c.output().as<float>() + image * s.out() * positions;
    transform_inputs(w, x, columns, inputs);
    multiply(w, weights, inputs, columns, sums);
    parallel_rows(s.out(), columns * kTerms * 8, [&](int64_t first, int64_t last) {
      for (int64_t out = first; out < last; ++out) {
        finish_channel(w, sums, out, columns, y);
        for (int64_t k = 0; k < images; ++k) {
          const int64_t at = (k * s.out() + out) * positions;
          w.functions.finish(y + at, epilogue.behind(out, image * s.out() * positions + at), positions,
                             y + at);
        }
      }
    });
  }
}

}  // namespace

KernelImpl winograd_convolution() {
  return {.name = "winograd",
          .run = run_winograd,
          .can_run = winograd_declines,
          .scratch_bytes = [](const KernelQuery& query) { return winograd_of(query).bytes; },
          .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
            return std::make_shared<Winograd>(winograd_of(query));
          }};
}

}  // namespace genesis::cpu
