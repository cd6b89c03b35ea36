// Depthwise convolutions and pooling of f32 images whose channels are last: each channel by itself over neighboring pixels.
#include <algorithm>

#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/pixel_tiles.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

struct NeighborSums {
  WindowShape windows;
  int64_t batch = 1, channels = 1;
  int64_t left = 0, right = 0;  // windows of the positions [left, right) of a row are inside of it
  ConvolutionShape convolution = {};
  bool count_padding = true;

  int64_t row() const { return windows.axis[2].size * channels; }
};

// The taps of an output's window that are inside of the image.
struct MetTaps {
  int64_t count = 0;
  int64_t offsets[kMaxPixelTaps], places[kMaxPixelTaps];
};

// Lists the rows that the window meets at one row of positions: where they begin in x, and the number of their first tap.
void list_rows(const NeighborSums& p, int64_t row, MetTaps& rows) {
  const auto& [outer, middle, inner] = p.windows.axis;
  const int64_t x1 = row % middle.positions, x0 = row / middle.positions % outer.positions,
                image = row / middle.positions / outer.positions;
  rows.count = 0;
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1) {
      const int64_t z = outer.element(x0, t0), y = middle.element(x1, t1);
      if (!outer.contains(z) || !middle.contains(y)) continue;
      rows.offsets[rows.count] = ((image * outer.size + z) * middle.size + y) * p.row();
      rows.places[rows.count++] = (t0 * middle.taps + t1) * inner.taps;
    }
}

// Returns the number by which a sum over the window at a position is divided.
int64_t counted(const NeighborSums& p, int64_t row, int64_t position) {
  const auto& [outer, middle, inner] = p.windows.axis;
  return outer.counted(row / middle.positions % outer.positions, p.count_padding) *
         middle.counted(row % middle.positions, p.count_padding) * inner.counted(position, p.count_padding);
}

// Computes the outputs [first, last) of a row, whose windows meet the same taps.
void combine_outputs(const NeighborSums& p, void (*combine)(const ChannelWindow&), ChannelWindow window,
                     const MetTaps& rows, int64_t row, int64_t first, int64_t last) {
  const WindowAxis& inner = p.windows.axis[2];
  MetTaps taps;
  for (int64_t i = 0; i < rows.count; ++i)
    for (int64_t t = 0; t < inner.taps; ++t)
      if (const int64_t at = inner.element(first, t); inner.contains(at)) {
        taps.offsets[taps.count] = rows.offsets[i] + at * window.channels;
        taps.places[taps.count++] = rows.places[i] + t;
      }
  window.offsets = taps.offsets, window.places = taps.places, window.taps = taps.count;
  window.outputs = last - first;
  if (window.sum == ChannelSum::kPlain)
    window.factor = static_cast<float>(1 / static_cast<double>(counted(p, row, first)));
  window.epilogue = window.epilogue.behind(0, first * window.channels);
  window.y += first * window.channels;
  combine(window);
}

// Computes all rows. `window` has everything that does not change from row to row.
void combine_rows(const NeighborSums& p, const ChannelWindow& window) {
  const WindowAxis& inner = p.windows.axis[2];
  const int64_t width = inner.positions * p.channels,
                rows = p.batch * p.windows.positions() / inner.positions;
  const auto combine = pixel_functions().combine;
  parallel_rows(rows, width * 4 * inner.stride, [&](int64_t begin, int64_t end) {
    MetTaps met;
    for (int64_t row = begin; row < end; ++row) {
      list_rows(p, row, met);
      ChannelWindow w = window;
      w.epilogue = window.epilogue.behind(0, row * width), w.y += row * width;
      for (int64_t i = 0; i < p.left; ++i) combine_outputs(p, combine, w, met, row, i, i + 1);
      if (p.left < p.right) combine_outputs(p, combine, w, met, row, p.left, p.right);
      for (int64_t i = p.right; i < inner.positions; ++i) combine_outputs(p, combine, w, met, row, i, i + 1);
    }
  });
}

void find_inner_positions(NeighborSums& p) {
  const WindowAxis& inner = p.windows.axis[2];
  const int64_t last_begin = inner.size - 1 - (inner.taps - 1) * inner.dilation + inner.begin;
  p.left = std::clamp<int64_t>((inner.begin + inner.stride - 1) / inner.stride, 0, inner.positions);
  p.right = std::clamp<int64_t>(last_begin < 0 ? 0 : last_begin / inner.stride + 1, p.left, inner.positions);
}

std::shared_ptr<const void> prepare_convolution_sums(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  NeighborSums p{.windows = s.windows, .batch = s.batch, .channels = s.in(), .convolution = s};
  find_inner_positions(p);
  return std::make_shared<NeighborSums>(p);
}

void run_neighbors(const KernelContext& c) {
  const auto& p = c.prepared<NeighborSums>();
  combine_rows(p, {.x = c.input(0).as<const float>(),
                   .step = p.windows.axis[2].stride * p.channels,
                   .channels = p.channels,
                   .weights = c.input(1).as<const float>(),
                   .panel = p.windows.taps() * kPanelOut,
                   .epilogue = epilogue_in(p.convolution, c),
                   .y = c.output().as<float>()});
}

std::optional<std::string> neighbors_decline(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (s.in_each != 1 || s.out_each != 1 || s.groups == 1)
    return "takes one input and one output channel in each group";
  return packed_declines(query);
}

// --- pooling

std::shared_ptr<const void> prepare_pooled(const KernelQuery& query) {
  const PoolShape s = pool_shape(query);
  NeighborSums p{.windows = s.windows,
                 .batch = s.planes / std::max<int64_t>(1, s.layout.channels),
                 .channels = s.layout.channels,
                 .count_padding = s.count_padding};
  find_inner_positions(p);
  return std::make_shared<NeighborSums>(p);
}

template <ChannelSum kSum>
void run_pooled(const KernelContext& c) {
  const auto& p = c.prepared<NeighborSums>();
  combine_rows(p, {.x = c.input(0).as<const float>(),
                   .step = p.windows.axis[2].stride * p.channels,
                   .channels = p.channels,
                   .sum = kSum,
                   .y = c.output().as<float>()});
}

std::optional<std::string> pool_declines(const KernelQuery& query) {
  const PoolShape s = pool_shape(query);
  if (!s.layout.last) return "takes channels behind the spatial axes";
  if (s.dtype != DType::f32) return "takes f32";
  if (s.windows.taps() > kMaxPixelTaps) return "takes windows of at most 256 elements";
  if (s.planes * s.windows.elements() == 0) return "takes tensors with elements";
  return std::nullopt;
}

}  // namespace

KernelImpl neighbor_convolution() {
  return {.name = "neighbors",
          .run = run_neighbors,
          .can_run = neighbors_decline,
          .prepare = prepare_convolution_sums};
}
KernelImpl neighbor_max_pool() {
  return {.name = "neighbors",
          .run = run_pooled<ChannelSum::kGreatest>,
          .can_run = pool_declines,
          .prepare = prepare_pooled};
}
KernelImpl neighbor_average_pool() {
  return {.name = "neighbors",
          .run = run_pooled<ChannelSum::kPlain>,
          .can_run = pool_declines,
          .prepare = prepare_pooled};
}

}  // namespace genesis::cpu
