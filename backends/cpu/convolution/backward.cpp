#include <array>

#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/operands.h"
#include "backends/cpu/convolution/tap_product.h"

namespace genesis::cpu {
namespace {

int64_t pieces_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A tap of one axis that reaches the elements r, r + stride, ... of x: from position i + shift of the map.
struct AxisTap {
  int64_t tap, shift;
};

std::vector<AxisTap> taps_of(const WindowAxis& a, int64_t r) {
  std::vector<AxisTap> taps;
  for (int64_t tap = 0; tap < a.taps; ++tap) {
    const int64_t distance = r + a.begin - tap * a.dilation;
    if (distance % a.stride == 0) taps.push_back({tap, distance / a.stride});
  }
  return taps;
}

// The elements of x whose places have one remainder by the strides are a convolution of the map with stride 1, by those taps of the
// window that reach them, and with the roles of input and output channels swapped.
struct Residue {
  std::array<int64_t, kMaxSpatialAxes> first;  // place of the first element
  TapProduct product;                          // without taps: these elements are zeros
  std::vector<int64_t> window;                 // flat taps of the window, in the order of the product's
};

struct Transposed {
  ConvolutionShape shape;
  PlaneLayout layout = {};  // planes of the map, for all residues
  std::vector<Residue> residues = {};
  int64_t chunk = 1;
  int64_t planes = 0, weights = 0, swapped = 0, part = 0, dx = 0, bytes = 0;

  bool is_one_product() const { return residues.size() == 1; }
};

PlaneLayout map_layout(const WindowShape& windows) {
  PlaneLayout layout;
  for (size_t i = 0; i < kMaxSpatialAxes; ++i) {
    const WindowAxis& a = windows.axis[i];
    int64_t least = 0, most = 0;
    for (int64_t r = 0; r < a.stride; ++r)
      for (const AxisTap& tap : taps_of(a, r))
        least = std::min(least, tap.shift), most = std::max(most, tap.shift);
    const int64_t positions = pieces_of(a.size, a.stride);
    layout.axis[i] = {
        .size = a.positions, .begin = -least, .extent = positions + most - least, .positions = positions};
  }
  return layout;
}

Residue residue_of(const ConvolutionShape& s, const PlaneLayout& layout,
                   const std::array<int64_t, kMaxSpatialAxes>& first) {
  const auto& [outer, middle, inner] = s.windows.axis;
  Residue residue{
      first, {.layout = layout, .groups = s.groups, .rows = s.in_each, .channels = s.out_each}, {}};
  for (size_t i = 0; i < kMaxSpatialAxes; ++i)
    residue.product.layout.axis[i].positions =
        pieces_of(s.windows.axis[i].size - first[i], s.windows.axis[i].stride);
  for (const AxisTap& t0 : taps_of(outer, first[0]))
    for (const AxisTap& t1 : taps_of(middle, first[1]))
      for (const AxisTap& t2 : taps_of(inner, first[2])) {
        residue.product.taps.push_back(
            layout.offset({t0.shift + layout.axis[0].begin, t1.shift + layout.axis[1].begin,
                           t2.shift + layout.axis[2].begin}));
        residue.window.push_back((t0.tap * middle.taps + t1.tap) * inner.taps + t2.tap);
      }
  return residue;
}

Transposed transposed_of(const KernelQuery& query) {
  Transposed t{.shape = convolution_shape(query)};
  const ConvolutionShape& s = t.shape;
  const auto& axis = s.windows.axis;
  t.layout = map_layout(s.windows);
  for (int64_t r0 = 0; r0 < std::min(axis[0].stride, axis[0].size); ++r0)
    for (int64_t r1 = 0; r1 < std::min(axis[1].stride, axis[1].size); ++r1)
      for (int64_t r2 = 0; r2 < std::min(axis[2].stride, axis[2].size); ++r2)
        t.residues.push_back(residue_of(s, t.layout, {r0, r1, r2}));
  t.chunk = images_at_once(s.batch, s.out(), t.layout);
  ScratchCut cut;
  t.weights = cut.take_unless_f32(s.dtype, CheckedSize(s.out()) * s.depth());
  t.swapped = cut.take(CheckedSize(s.out()) * s.depth());
  t.dx = cut.take_unless_f32(s.dtype, CheckedSize(s.batch) * s.in() * s.windows.elements());
  if (!t.is_one_product()) t.part = cut.take(CheckedSize(t.chunk) * s.in() * t.layout.positions());
  t.planes = cut.take(CheckedSize(t.chunk) * s.out() * t.layout.channel() + kPlaneSlack);
  t.bytes = cut.bytes();
  return t;
}

// swapped[group][i][o][tap] = weights[group][o][i][window tap]
void swap_channels(const ConvolutionShape& s, const Residue& residue, const float* weights, float* swapped) {
  const auto taps = static_cast<int64_t>(residue.window.size());
  parallel_rows(s.in(), s.out_each * taps * 4, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t group = row / s.in_each, i = row % s.in_each;
      float* to = swapped + row * s.out_each * taps;
      for (int64_t o = 0; o < s.out_each; ++o) {
        const float* from = weights + (group * s.out_each + o) * s.depth() + i * s.windows.taps();
        for (const int64_t tap : residue.window) *to++ = from[tap];
      }
    }
  });
}

// Writes the elements of one residue of some images: `part` [channels][positions], or zeros if it is null.
void scatter(const WindowShape& windows, const Residue& residue, int64_t channels, const float* part,
             float* dx) {
  const auto& [outer, middle, inner] = windows.axis;
  const auto& axis = residue.product.layout.axis;
  parallel_rows(channels, windows.elements() * 4, [&](int64_t first, int64_t last) {
    for (int64_t channel = first; channel < last; ++channel) {
      const float* from = part ? part + channel * residue.product.positions() : nullptr;
      float* plane = dx + channel * windows.elements();
      for (int64_t z = 0; z < axis[0].positions; ++z)
        for (int64_t y = 0; y < axis[1].positions; ++y) {
          float* to =
              plane +
              ((residue.first[0] + z * outer.stride) * middle.size + residue.first[1] + y * middle.stride) *
                  inner.size +
              residue.first[2];
          for (int64_t x = 0; x < axis[2].positions; ++x) to[x * inner.stride] = from ? *from++ : 0;
        }
    }
  });
}

void run_residue(const Transposed& t, const Residue& residue, const KernelContext& c, const float* weights,
                 const float* planes, int64_t images, float* dx) {
  const ConvolutionShape& s = t.shape;
  if (residue.product.taps.empty()) return scatter(s.windows, residue, images * s.in(), nullptr, dx);
  float* swapped = floats_at(c.scratch, t.swapped);
  swap_channels(s, residue, weights, swapped);
  if (t.is_one_product()) return run_tap_product(residue.product, swapped, planes, images, dx, {});
  float* part = floats_at(c.scratch, t.part);
  run_tap_product(residue.product, swapped, planes, images, part, {});
  scatter(s.windows, residue, images * s.in(), part, dx);
}

void run_transposed(const KernelContext& c) {
  const auto& t = c.prepared<Transposed>();
  const ConvolutionShape& s = t.shape;
  const float* weights = as_floats(c.input(1), c.scratch, t.weights);
  float* dx = s.dtype == DType::f32 ? c.output().as<float>() : floats_at(c.scratch, t.dx);
  float* planes = floats_at(c.scratch, t.planes);
  const int64_t image_bytes = c.input(0).bytes() / s.batch;
  for (int64_t image = 0; image < s.batch; image += t.chunk) {
    const int64_t images = std::min(t.chunk, s.batch - image);
    split_images(t.layout, s.dtype, c.input(0).as<const std::byte>() + image * image_bytes, images * s.out(),
                 0, planes);
    for (const Residue& residue : t.residues)
      run_residue(t, residue, c, weights, planes, images, dx + image * s.in() * s.windows.elements());
  }
  write_result(dx, c.output());
}

struct WeightGradient {
  ConvolutionShape shape;
  TapProduct product = {};
  int64_t chunk = 1;
  int64_t planes = 0, dy = 0, dw = 0, bytes = 0;
};

WeightGradient weight_gradient_of(const KernelQuery& query) {
  WeightGradient g{.shape = convolution_shape(query)};
  const ConvolutionShape& s = g.shape;
  g.product = tap_product_of(s);
  const PlaneLayout& layout = g.product.layout;
  g.chunk = images_at_once(s.batch, s.in(), layout);
  ScratchCut cut;
  g.dy = cut.take_unless_f32(s.dtype, CheckedSize(s.batch) * s.out() * layout.positions());
  g.dw = cut.take_unless_f32(s.dtype, CheckedSize(s.out()) * s.depth());
  if (!g.product.is_exact)
    g.planes = cut.take(CheckedSize(g.chunk) * s.in() * layout.channel() + kPlaneSlack);
  g.bytes = cut.bytes();
  return g;
}

void run_gradient(const KernelContext& c) {
  const auto& g = c.prepared<WeightGradient>();
  const ConvolutionShape& s = g.shape;
  const float* dy = as_floats(c.input(1), c.scratch, g.dy);
  float* dw = s.dtype == DType::f32 ? c.output().as<float>() : floats_at(c.scratch, g.dw);
  const auto* x = c.input(0).as<const std::byte>();
  const int64_t image_bytes = c.input(0).bytes() / s.batch;
  for (int64_t image = 0; image < s.batch; image += g.chunk) {
    const int64_t images = std::min(g.chunk, s.batch - image);
    const float* planes = reinterpret_cast<const float*>(x + image * image_bytes);
    if (!g.product.is_exact) {
      float* made = floats_at(c.scratch, g.planes);
      split_images(g.product.layout, s.dtype, x + image * image_bytes, images * s.in(), 0, made);
      planes = made;
    }
    run_weight_gradient(g.product, dy + image * s.out() * g.product.positions(), planes, images, dw,
                        image > 0);
  }
  write_result(dw, c.output());
}

template <class Plan, Plan (*make)(const KernelQuery&)>
KernelImpl implementation(void (*run)(const KernelContext&)) {
  return {.name = "tiles",
          .run = run,
          .can_run = tiles_decline,
          .scratch_bytes = [](const KernelQuery& query) { return make(query).bytes; },
          .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
            return std::make_shared<Plan>(make(query));
          }};
}

}  // namespace

KernelImpl tiled_transposed() { return implementation<Transposed, transposed_of>(run_transposed); }
KernelImpl tiled_weight_gradient() {
  return implementation<WeightGradient, weight_gradient_of>(run_gradient);
}

}  // namespace genesis::cpu
