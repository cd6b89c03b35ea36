// Tests convolution, its transposed form and its gradients against plain loops, and pooling.
#include "schema/ops/nn/convolution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <set>

#include "builder/graph_builder.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/pooling.h"
#include "schema/ops/tensor/layout.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

// The layout in which an op gets its operands; those of a case always have their channels behind the batch.
struct Layout {
  bool channels_last = false;

  std::string name(const std::string& name) const { return name + (channels_last ? "_channels_last" : ""); }
  Value operator()(Value x) const {
    std::vector<int64_t> axes = {0};
    for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
    axes.push_back(1);
    return channels_last ? permute(x, axes) : x;
  }
  Value back(Value x) const {
    std::vector<int64_t> axes = {0, x.rank() - 1};
    for (int axis = 1; axis + 1 < x.rank(); ++axis) axes.push_back(axis);
    return channels_last ? permute(x, axes) : x;
  }
};
constexpr Layout kLayouts[] = {{false}, {true}};

struct Window {
  std::vector<int64_t> size, stride, dilation, begin, end;
  Windows moves(Layout layout = {}) const { return {stride, dilation, begin, end, layout.channels_last}; }
};

std::vector<int64_t> positions_of(const std::vector<int64_t>& sizes, const Window& w,
                                  bool ceil_mode = false) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t free = sizes[i] + w.begin[i] + w.end[i] - w.dilation[i] * (w.size[i] - 1) - 1;
    int64_t n = (free + (ceil_mode ? w.stride[i] - 1 : 0)) / w.stride[i] + 1;
    if (ceil_mode && (n - 1) * w.stride[i] >= sizes[i] + w.begin[i]) --n;
    positions.push_back(n);
  }
  return positions;
}

// Calls body(position, tap, element) for each tap that meets an element, all as flat numbers.
template <class Body>
void for_each_tap(const std::vector<int64_t>& sizes, const Window& w, const std::vector<int64_t>& positions,
                  const Body& body) {
  int64_t count = 1, taps = 1;
  for (const int64_t n : positions) count *= n;
  for (const int64_t n : w.size) taps *= n;
  for (int64_t position = 0; position < count; ++position)
    for (int64_t tap = 0; tap < taps; ++tap) {
      const auto at = unravel(position, positions), in = unravel(tap, w.size);
      std::vector<int64_t> element;
      bool inside = true;
      for (size_t i = 0; i < sizes.size(); ++i) {
        element.push_back(at[i] * w.stride[i] + in[i] * w.dilation[i] - w.begin[i]);
        inside = inside && element[i] >= 0 && element[i] < sizes[i];
      }
      if (inside) body(position, tap, ravel(element, sizes));
    }
}

std::vector<int64_t> spatial(const Ref& x) { return {x.shape.begin() + 2, x.shape.end()}; }

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

// Calls body(x, weight, y), flat numbers of the elements that are multiplied and of the sum they belong to.
template <class Body>
void for_each_product(const std::vector<int64_t>& x, const std::vector<int64_t>& weight, const Window& w,
                      int64_t groups, const Body& body) {
  const std::vector<int64_t> sizes(x.begin() + 2, x.end()), positions = positions_of(sizes, w);
  const int64_t out = weight[0], in = weight[1], taps = product(w.size), elements = product(sizes),
                count = product(positions);
  for_each_tap(sizes, w, positions, [&](int64_t position, int64_t tap, int64_t element) {
    for (int64_t n = 0; n < x[0]; ++n)
      for (int64_t o = 0; o < out; ++o)
        for (int64_t i = 0; i < in; ++i)
          body((n * x[1] + o / (out / groups) * in + i) * elements + element, (o * in + i) * taps + tap,
               (n * out + o) * count + position);
  });
}

Ref convolved(const Ref& x, const Ref& weight, const Window& w, int64_t groups) {
  std::vector<int64_t> shape = {x.dim(0), weight.dim(0)};
  for (const int64_t n : positions_of(spatial(x), w)) shape.push_back(n);
  Ref y = ref_zeros(shape);
  for_each_product(x.shape, weight.shape, w, groups,
                   [&](int64_t i, int64_t j, int64_t k) { y[k] += x[i] * weight[j]; });
  return y;
}

void check_convolution(const std::string& name, std::vector<int64_t> x, std::vector<int64_t> weight,
                       const Window& w, int64_t groups = 1) {
  for (const Layout layout : kLayouts)
    check(with_terms({.name = layout.name(name),
                      .inputs = {real(x), real(weight)},
                      .build =
                          [=](const Inputs& in) {
                            return Outputs{
                                layout.back(convolution({.windows = w.moves(layout), .groups = groups},
                                                        {layout(in[0]), layout(in[1])}))};
                          },
                      .reference = [=](const Refs& in) { return Refs{convolved(in[0], in[1], w, groups)}; },
                      .directions = product(x) > 300 ? 8 : 0}));
}

const Window kPoint{{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
const Window kSame{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
const Window kStrided{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};

TEST(Convolution, IsASumOverChannelsAndTaps) {
  check_convolution("conv_point", {2, 5, 3, 4}, {9, 5, 1, 1}, kPoint);
  check_convolution("conv_same", {2, 3, 5, 6}, {9, 3, 3, 3}, kSame);
  check_convolution("conv_strided", {1, 3, 7, 6}, {4, 3, 3, 3}, kStrided);
  check_convolution("conv_padded_behind", {1, 3, 8, 8}, {4, 3, 3, 3},
                    {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}});
  check_convolution("conv_1d_strided", {2, 2, 9}, {3, 2, 4}, {{4}, {3}, {1}, {2}, {1}});
  check_convolution("conv_1d_same_pads", {2, 2, 9}, {3, 2, 4}, {{4}, {3}, {2}, {2}, {2}});
  check_convolution("conv_1d", {2, 2, 9}, {3, 2, 4}, {{4}, {3}, {2}, {2}, {1}});
  check_convolution("conv_3d", {1, 2, 4, 3, 5}, {2, 2, 2, 3, 2},
                    {{2, 3, 2}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1}, {1, 1, 0}});
  check_convolution("conv_point_strided", {1, 4, 5, 5}, {3, 4, 1, 1},
                    {{1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
}

TEST(Convolution, HasGroups) {
  check_convolution("conv_groups", {2, 4, 4, 5}, {6, 2, 3, 3}, kSame, 2);
  check_convolution("conv_depthwise", {2, 3, 6, 7}, {3, 1, 3, 3}, kStrided, 3);
  check_convolution("conv_multiplied", {1, 2, 6, 5}, {4, 1, 5, 3}, {{5, 3}, {1, 2}, {1, 2}, {2, 3}, {2, 2}},
                    2);
}

// Channels by themselves that fill packs of 16 bytes, in windows of all sizes that a kernel of a GPU has.
TEST(Convolution, HasChannelsByThemselves) {
  check_convolution("conv_depthwise_3", {2, 24, 6, 9}, {24, 1, 3, 3}, kSame, 24);
  check_convolution("conv_depthwise_5", {1, 8, 9, 10}, {8, 1, 5, 5}, {{5, 5}, {2, 2}, {1, 1}, {1, 2}, {2, 2}},
                    8);
  check_convolution("conv_depthwise_7", {2, 8, 8, 11}, {8, 1, 7, 7}, {{7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 2}},
                    8);
}

// These have several tiles of columns, blocks of terms and rows left over.
TEST(Convolution, HasManyTiles) {
  check_convolution("conv_tiles", {1, 29, 8, 27}, {9, 29, 3, 3}, kSame);
  check_convolution("conv_blocks", {1, 260, 3, 7}, {9, 260, 1, 1}, kPoint);
  check_convolution("conv_long_rows", {1, 2, 1, 4200}, {2, 1, 1, 3}, {{1, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}},
                    2);
}

double activated(ConvolutionActivation activation, double v) {
  switch (activation) {
    case ConvolutionActivation::kNone:
      return v;
    case ConvolutionActivation::kRelu:
      return std::max(v, 0.0);
    case ConvolutionActivation::kRelu6:
      return std::min(std::max(v, 0.0), 6.0);
    case ConvolutionActivation::kHardswish:
      return v * std::min(std::max(v + 3, 0.0), 6.0) / 6;
    case ConvolutionActivation::kSilu:
      return v / (1 + std::exp(-v));
    case ConvolutionActivation::kGelu:
      return v * (1 + std::erf(v / std::sqrt(2.0))) / 2;
    case ConvolutionActivation::kGeluTanh:
      return v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v))) / 2;
    case ConvolutionActivation::kSigmoid:
      return 1 / (1 + std::exp(-v));
  }
  return v;
}

// Checks a convolution of x by a weight, with an epilogue, and no gradient.
void check_epilogue(const std::string& name, std::vector<int64_t> x, std::vector<int64_t> weight,
                    const Window& w, int64_t groups, Layout layout, ConvolutionActivation activation) {
  const int64_t out = weight[0];
  std::vector<int64_t> map = {x[0], out};
  const std::vector<int64_t> positions = positions_of({x.begin() + 2, x.end()}, w);
  map.insert(map.end(), positions.begin(), positions.end());
  check({.name = layout.name(name),
         .inputs = {real(x), real(weight), real({out}, 2, 4), real({out}), real(map)},
         .build =
             [=](const Inputs& in) {
               return Outputs{layout.back(
                   convolution({.windows = w.moves(layout), .groups = groups, .activation = activation},
                               {layout(in[0]), layout(in[1]), in[2], in[3], layout(in[4])}))};
             },
         .reference =
             [=](const Refs& in) {
               Ref y = convolved(in[0], in[1], w, groups);
               for (int64_t i = 0; i < y.numel(); ++i) {
                 const int64_t channel = i / product(positions) % out;
                 y[i] = activated(activation, y[i] * in[2][channel] + in[3][channel] + in[4][i]);
               }
               return Refs{y};
             },
         .gradient = false,
         .tolerance = weight[1] > 100 ? 1e-4 : 2e-5,  // sums of 36 or 1224 terms times a scale of 4
         // The same holds in 16 bits, whose sums may be rounded first.
         .tolerance_low = weight[1] > 100 ? 0.15 : 0.06});
}

TEST(Convolution, HasAScaleABiasAnAddendAndAnActivation) {
  using enum ConvolutionActivation;
  const auto of_images = [](int64_t channels, int64_t groups, Layout layout,
                            ConvolutionActivation activation) {
    check_epilogue("conv_epilogue", {2, channels, 4, 5}, {8, channels / groups, 3, 3}, kSame, groups, layout,
                   activation);
  };
  for (const auto activation : {kNone, kRelu, kRelu6, kHardswish})
    for (const auto& [groups, layout] : std::vector<std::pair<int64_t, Layout>>{
             {1, {false}}, {4, {false}}, {1, {true}}, {4, {true}}, {8, {true}}})
      of_images(std::max<int64_t>(4, groups), groups, layout, activation);
  for (const auto activation : {kSilu, kGelu, kGeluTanh, kSigmoid})
    for (const int64_t groups : {1, 8}) of_images(8, groups, {true}, activation);
}

// Maps of a few tiles of tensor cores, whose terms blocks share: rows, columns and terms that are left over, and two pictures. Maps of
// one pixel.
TEST(Convolution, HasFewTiles) {
  using enum ConvolutionActivation;
  const Window strided{{3, 2}, {2, 1}, {2, 1}, {1, 0}, {2, 1}};
  const auto last = [](std::vector<int64_t> x, std::vector<int64_t> weight, const Window& w,
                       ConvolutionActivation activation) {
    check_epilogue("conv_few", std::move(x), std::move(weight), w, 1, {true}, activation);
  };
  last({2, 16, 7, 6}, {24, 16, 3, 3}, kSame, kRelu);
  last({1, 72, 9, 8}, {40, 72, 1, 1}, kPoint, kHardswish);
  last({1, 136, 3, 4}, {72, 136, 3, 3}, kSame, kNone);
  last({2, 8, 9, 10}, {8, 8, 3, 2}, strided, kSilu);
  last({9, 24, 1, 1}, {5, 24, 1, 1}, kPoint, kSigmoid);
  last({1, 90, 1, 1}, {33, 90, 1, 1}, kPoint, kRelu);
  last({2, 7, 1, 1}, {3, 7, 1, 1}, kPoint, kSilu);
  // The only position of the window meets padding.
  last({2, 8, 1, 1}, {8, 8, 1, 1}, {{1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, kRelu);
  last({1, 8, 1, 1}, {8, 8, 1, 1}, {{1, 1}, {2, 2}, {1, 1}, {1, 1}, {0, 0}}, kNone);
  last({1, 64, 1, 7, 7}, {64, 64, 1, 3, 3}, {{1, 3, 3}, {3, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, kNone);
}

// Maps that give each multiprocessor of a GPU a tile of channels by themselves, with channels and positions that are left over.
TEST(Convolution, HasManyTilesOfChannelsByThemselves) {
  using enum ConvolutionActivation;
  const Window five{{5, 5}, {1, 1}, {1, 1}, {2, 3}, {2, 2}}, three{{3, 3}, {1, 1}, {1, 1}, {1, 2}, {0, 0}};
  check_epilogue("conv_depthwise_tiles", {132, 8, 10, 7}, {8, 1, 5, 5}, five, 8, {true}, kHardswish);
  check_epilogue("conv_depthwise_tiles", {67, 40, 15, 8}, {40, 1, 3, 3}, three, 40, {true}, kSilu);
}

// Windows of one element over as many pixels as a GPU takes for products of single pixels.
TEST(Convolution, IsAProductOfPixels) {
  check_epilogue("conv_pixels", {5, 24, 120, 113}, {8, 24, 1, 1}, kPoint, 1, {true}, ConvolutionActivation::kRelu);
}

// Bottlenecks without an activation, as MobileNet has them, end in the addition of what goes around them.
TEST(Convolution, HasAnAddendAndNoActivation) {
  const Window strided{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
  struct Block {
    std::vector<int64_t> x;
    int64_t out;
    Window w;
  };
  for (const auto& [x, out, w] : std::vector<Block>{{{1, 136, 7, 8}, 72, kSame},
                                                    {{2, 136, 6, 6}, 72, strided},
                                                    {{3, 104, 14, 14}, 24, kPoint},
                                                    {{2, 240, 14, 14}, 40, kPoint},
                                                    {{1, 480, 7, 7}, 160, kPoint}}) {
    const int64_t taps = w.size[0];
    check_epilogue("conv_bottleneck", x, {out, x[1], taps, taps}, w, 1, {true}, ConvolutionActivation::kNone);
  }
}

// The form that inference on a CPU has: single pixels, rows of few channels, several taps, groups, channels by themselves.
TEST(Convolution, HasPackedWeights) {
  using enum ConvolutionActivation;
  struct Packed {
    std::vector<int64_t> x, weight;
    Window w;
    int64_t groups = 1;
    ConvolutionActivation activation = kNone;
  };
  const Window dilated{{4}, {3}, {2}, {2}, {1}};
  const Window volume{{2, 3, 2}, {1, 1, 2}, {1, 1, 1}, {0, 1, 1}, {1, 1, 0}};
  const Window slices{{1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 1}, {0, 2, 1}};
  for (const Packed& p : std::vector<Packed>{{{2, 5, 3, 4}, {9, 5, 1, 1}, kPoint},
                                             {{2, 3, 5, 6}, {9, 3, 3, 3}, kSame, 1, kRelu},
                                             {{1, 16, 7, 6}, {37, 16, 3, 3}, kStrided, 1, kSilu},
                                             {{2, 12, 9}, {3, 12, 4}, dilated, 1, kGelu},
                                             {{1, 9, 4, 3, 5}, {2, 9, 2, 3, 2}, volume, 1, kGeluTanh},
                                             {{1, 8, 4, 5}, {64, 4, 3, 3}, kSame, 2, kHardswish},
                                             {{2, 24, 6, 9}, {24, 1, 3, 3}, kStrided, 24, kRelu6},
                                             {{2, 32, 13, 14}, {80, 32, 3, 3}, kSame, 1, kRelu},
                                             {{1, 48, 2, 11, 12}, {33, 48, 1, 3, 3}, slices, 1, kGelu},
                                             {{1, 19, 6, 7}, {19, 1, 3, 3}, kSame, 19, kSilu}}) {
    const int64_t out = p.weight[0];
    check({.name = "conv_packed",
           .inputs = {real(p.x), real(p.weight), real({out}, 1, 2), real({out})},
           .build =
               [=](const Inputs& in) {
                 const Layout last{true};
                 return Outputs{last.back(convolution({.windows = p.w.moves(last),
                                                       .groups = p.groups,
                                                       .activation = p.activation,
                                                       .packed_out = out},
                                                      {last(in[0]), packed_weight(in[1]), in[2], in[3]}))};
               },
           .reference =
               [=](const Refs& in) {
                 Ref y = convolved(in[0], in[1], p.w, p.groups);
                 const int64_t positions = y.numel() / (y.shape[0] * out);
                 for (int64_t i = 0; i < y.numel(); ++i) {
                   const int64_t channel = i / positions % out;
                   y[i] = activated(p.activation, y[i] * in[2][channel] + in[3][channel]);
                 }
                 return Refs{y};
               },
           .gradient = false,
           .low_precision = false,
           .f64 = false,
           .on_gpus = false,
           // Sums of 144 terms times a scale of 2; Winograd rounds sums of 432 ten times as much.
           .tolerance = p.x[1] < 32 ? 2e-5 : 2e-4});
  }
}

// The result of a convolution of [batch, h, w, channels] by packed windows of 3 x 3, and the bytes of its arena.
struct PackedRun {
  std::vector<float> y;
  int64_t arena = 0;
};
PackedRun run_packed(const Tensor& x, const Tensor& weight, std::set<std::string> disabled) {
  auto model = std::make_shared<Model>();
  {
    GraphBuilder g(*model, "forward");
    const Value images = g.input("x", DType::f32, x.type().shape),
                weights = g.input("weight", DType::f32, weight.type().shape);
    g.output("y", convolution({.windows = kSame.moves({true}), .packed_out = weight.type().shape[0].value()},
                              {images, packed_weight(weights)}));
  }
  SessionOptions options;
  options.disabled = std::move(disabled);
  Session session(model, options);
  const NamedTensors inputs = {{"x", x}, {"weight", weight}};
  const NamedTensors results = session.run("forward", inputs);
  const auto y = results.at("y").as<float>();
  return {{y.begin(), y.end()}, session.plan("forward").arena_bytes};
}

Tensor noise(const std::vector<int64_t>& shape, float scale, std::optional<size_t> infinite = {}) {
  std::vector<float> values(static_cast<size_t>(product(shape)));
  uint32_t bits = 1;
  for (float& value : values) {
    bits = bits * 1664525u + 1013904223u;
    value = scale * (static_cast<float>(bits >> 8) / (1 << 23) - 1);
  }
  if (infinite) values[*infinite] = std::numeric_limits<float>::infinity();
  return Tensor::of(shape, values);
}

const std::set<std::string> kPlainPixels = {"kernel:convolution.winograd"};

// Tiles and weights that are transformed in several turns: two waves of tiles, two rounds of weights, and both.
TEST(Convolution, MultipliesManyTilesInTurns) {
  for (const auto& [x, out] :
       std::vector<std::pair<std::vector<int64_t>, int64_t>>{{{1, 64, 64, 32}, 64},
                                                             {{1, 121, 122, 32}, 70},
                                                             {{1, 13, 18, 512}, 144},
                                                             {{1, 32, 32, 512}, 128}}) {
    const Tensor images = noise(x, 1), weight = noise({out, x[3], 3, 3}, 0.1f);
    const PackedRun got = run_packed(images, weight, {}), expected = run_packed(images, weight, kPlainPixels);
    for (size_t i = 0; i < expected.y.size(); ++i)
      // Sums of up to 4608 terms, of which Winograd rounds ten times as much as plain sums.
      ASSERT_NEAR(got.y[i], expected.y[i], 6e-4) << x[1] << " at " << i;
  }
}

// Transforms overflow earlier than sums, and spread an infinite pixel over its tile.
TEST(Convolution, TilesKeepLargeAndInfinitePixels) {
  const Tensor weight = noise({40, 32, 3, 3}, 0.1f);
  for (const float scale : {5e36f, 1.0f}) {
    const std::vector<int64_t> shape = {1, 14, 15, 32};
    const Tensor x = scale == 1 ? noise(shape, scale, (6 * 15 + 7) * 32 + 5) : noise(shape, scale);
    const PackedRun got = run_packed(x, weight, {}), expected = run_packed(x, weight, kPlainPixels);
    const auto is_infinite = [](float y) { return std::isinf(y); };
    EXPECT_EQ(std::ranges::count_if(expected.y, is_infinite), scale == 1 ? 9 * 40 : 0);
    for (size_t i = 0; i < expected.y.size(); ++i) {
      if (is_infinite(expected.y[i]))
        ASSERT_EQ(got.y[i], expected.y[i]) << i;
      else
        ASSERT_NEAR(got.y[i] / scale, expected.y[i] / scale, 1e-4) << i;
    }
  }
}

// Scratch memory does not grow with the channels: weights of few panels are transformed at a time.
TEST(Convolution, TilesOfManyChannelsTakeLittleMemory) {
  for (const int64_t channels : {512, 960}) {
    const Tensor x = noise({1, 16, 16, channels}, 1), weight = noise({channels, channels, 3, 3}, 0.1f);
    const int64_t plain = run_packed(x, weight, kPlainPixels).arena;
    EXPECT_LT(run_packed(x, weight, {}).arena - plain, 20 << 20) << channels;
  }
}

// Many channels, several panels of columns, and padding at one side only.
TEST(Convolution, HasWindowsOf3x3OfManyChannels) {
  for (const auto& [x, w] : std::vector<std::pair<std::vector<int64_t>, Window>>{
           {{1, 33, 13, 18}, kSame},
           {{3, 32, 9, 5}, {{3, 3}, {1, 1}, {1, 1}, {0, 2}, {1, 0}}},
           {{2, 40, 27, 40}, {{3, 3}, {1, 1}, {1, 1}, {1, 0}, {1, 0}}}}) {
    const int64_t channels = x[1];
    const OpCase c = {
        .name = "conv_many_channels",
        .inputs = {real(x), real({35, channels, 3, 3}, -0.2, 0.2), real({35}), real({35})},
        .build =
            [w = w](const Inputs& in) {
              return Outputs{convolution({.windows = w.moves(), .activation = ConvolutionActivation::kRelu},
                                         {in[0], in[1], in[2], in[3]})};
            },
        .reference =
            [w = w](const Refs& in) {
              Ref y = convolved(in[0], in[1], w, 1);
              const int64_t positions = y.shape[2] * y.shape[3];
              for (int64_t i = 0; i < y.numel(); ++i) {
                const int64_t channel = i / positions % y.shape[1];
                y[i] = std::max(y[i] * in[2][channel] + in[3][channel], 0.0);
              }
              return Refs{y};
            },
        .gradient = false,
        .tolerance = 2e-5,  // sums of 360 terms
        .tolerance_low = 0.06};
    check(c);
  }
}

TEST(Convolution, TransposedIsItsGradient) {
  const auto check_transposed = [](const std::string& name, std::vector<int64_t> x,
                                   std::vector<int64_t> weight, const Window& w, int64_t groups,
                                   std::vector<int64_t> sizes) {
    for (const Layout layout : kLayouts)
      check(with_terms({.name = layout.name(name),
                        .inputs = {real(x), real(weight)},
                        .build =
                            [=](const Inputs& in) {
                              return Outputs{layout.back(convolution_transposed(
                                  {.windows = w.moves(layout), .groups = groups, .sizes = Shape::of(sizes)},
                                  layout(in[0]), layout(in[1])))};
                            },
                        .reference =
                            [=](const Refs& in) {
                              std::vector<int64_t> shape = {x[0], weight[1] * groups};
                              shape.insert(shape.end(), sizes.begin(), sizes.end());
                              Ref y = ref_zeros(shape);
                              for_each_product(
                                  shape, weight, w, groups,
                                  [&](int64_t i, int64_t j, int64_t k) { y[i] += in[0][k] * in[1][j]; });
                              return Refs{y};
                            },
                        .gradient = product(x) < 1000}));
  };
  check_transposed("transposed_same", {1, 3, 4, 5}, {3, 2, 3, 3}, kSame, 1, {4, 5});
  check_transposed("transposed_strided", {2, 4, 3, 3}, {4, 2, 3, 3}, kStrided, 2, {6, 5});
  check_transposed("transposed_depthwise", {2, 8, 5, 6}, {8, 1, 5, 3},
                   {{5, 3}, {1, 1}, {1, 1}, {2, 0}, {2, 1}}, 8, {5, 7});
  check_transposed("transposed_tiles", {132, 8, 9, 7}, {8, 1, 3, 3},
                   {{3, 3}, {1, 1}, {1, 1}, {2, 0}, {0, 1}}, 8, {9, 8});
  check_transposed("transposed_gaps", {1, 2, 3}, {2, 3, 2}, {{2}, {3}, {1}, {0}, {0}}, 1, {9});
  check_transposed("transposed_dilated", {1, 2, 4}, {2, 1, 3}, {{3}, {2}, {2}, {1}, {1}}, 1, {10});
}

TEST(Convolution, SymbolicSizesAreDividedByTheStride) {
  const Dim h = Dim::symbol("h");
  const auto shape = [&](const Dim& size, const Window& w) {
    return infer_case({{DType::f32, {Dim::symbol("batch"), 3, size, 8}}, {DType::f32, {4, 3, 3, 3}}},
                      [&](const Inputs& in) {
                        return Outputs{convolution({.windows = w.moves()}, {in[0], in[1]})};
                      })[0]
        .shape.to_string();
  };
  EXPECT_EQ(shape(h, kSame), "[batch,4,h,8]");
  EXPECT_EQ(shape(h * 4, kStrided), "[batch,4,2*h,4]");
  EXPECT_EQ(shape(h, kStrided), "[batch,4,floor_div(h+1,2),4]");
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  const auto refused = [](std::vector<int64_t> x, std::vector<int64_t> weight, const Window& w,
                          int64_t groups) {
    return [=] {
      infer_case({{DType::f32, Shape::of(x)}, {DType::f32, Shape::of(weight)}}, [&](const Inputs& in) {
        return Outputs{convolution({.windows = w.moves(), .groups = groups}, {in[0], in[1]})};
      });
    };
  };
  expect_error(refused({1, 3, 4, 4}, {2, 4, 3, 3}, kSame, 1), {"convolution", "3 channels"});
  expect_error(refused({1, 4, 4, 4}, {3, 2, 3, 3}, kSame, 2), {"2 groups"});
  expect_error(refused({1, 3, 4}, {2, 3, 3}, kSame, 1), {"strides", "1 spatial axes"});
  expect_error(refused({1, 3, 1, 1}, {2, 3, 5, 5}, {{5, 5}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1),
               {"does not fit"});
}

// --- pooling

enum class Pool { kMax, kAverage, kAverageOfElements };

Ref pooled(const Ref& x, const Window& w, bool ceil_mode, Pool pool) {
  const std::vector<int64_t> sizes = spatial(x), positions = positions_of(sizes, w, ceil_mode);
  std::vector<int64_t> shape = {x.dim(0), x.dim(1)};
  shape.insert(shape.end(), positions.begin(), positions.end());
  Ref y = ref_zeros(shape);
  const int64_t count = product(positions), elements = product(sizes);
  for (int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) {
    std::vector<double> number(static_cast<size_t>(count));
    for_each_tap(sizes, w, positions, [&](int64_t position, int64_t, int64_t element) {
      double &to = y[plane * count + position], &n = number[static_cast<size_t>(position)];
      const double value = x[plane * elements + element];
      to = pool != Pool::kMax ? to + value : n == 0 ? value : std::max(to, value);
      ++n;
    });
    for (int64_t i = 0; pool != Pool::kMax && i < count; ++i) {
      double n = 1;
      const auto at = unravel(i, positions);
      for (size_t axis = 0; axis < sizes.size(); ++axis) {
        int64_t counted = 0;
        for (int64_t tap = 0; tap < w.size[axis]; ++tap)
          counted +=
              at[axis] * w.stride[axis] + tap * w.dilation[axis] - w.begin[axis] < sizes[axis] + w.end[axis];
        n *= static_cast<double>(counted);
      }
      y[plane * count + i] /= pool == Pool::kAverage ? n : number[static_cast<size_t>(i)];
    }
  }
  return y;
}

void check_pool(const std::string& name, std::vector<int64_t> x, const Window& w, bool ceil_mode = false) {
  for (const Pool pool : {Pool::kMax, Pool::kAverage, Pool::kAverageOfElements})
    for (const Layout layout : kLayouts)
      check({.name = layout.name(name),
             .inputs = {real(x)},
             .build =
                 [=](const Inputs& in) {
                   const Value operand = layout(in[0]);
                   const Windows windows = w.moves(layout);
                   if (pool == Pool::kMax)
                     return Outputs{layout.back(emit(ops::MaxPool{windows, w.size, ceil_mode}, {operand}))};
                   const ops::AveragePool average{windows, w.size, ceil_mode, pool == Pool::kAverage};
                   return Outputs{layout.back(emit(average, {operand}))};
                 },
             .reference = [=](const Refs& in) { return Refs{pooled(in[0], w, ceil_mode, pool)}; },
             .low_gradient = pool != Pool::kMax});  // rounded elements tie
}

TEST(Pooling, CombinesTheElementsOfEachWindow) {
  check_pool("pool_2d", {2, 3, 6, 7}, {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
  check_pool("pool_padded", {1, 2, 6, 5}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  check_pool("pool_channels", {2, 8, 6, 5}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  check_pool("pool_ceil", {1, 2, 5, 6}, {{2, 3}, {2, 2}, {1, 1}, {0, 1}, {0, 1}}, true);
  check_pool("pool_1d", {2, 2, 9}, {{3}, {1}, {2}, {1}, {2}});
  check_pool("pool_3d", {1, 1, 4, 3, 5}, {{2, 2, 2}, {2, 1, 2}, {1, 1, 1}, {0, 0, 1}, {0, 1, 0}});
}

TEST(Pooling, ANanIsGreatest) {
  const float nan = std::nanf("");
  const auto y = run_graph({{"x", Tensor::of({1, 1, 4}, std::vector<float>{1, nan, 3, 2})}},
                           [](const Inputs& in) -> std::vector<std::pair<std::string, Value>> {
                             return {{"y", emit(ops::MaxPool{{{1}, {1}, {0}, {0}}, {2}}, {in[0]})}};
                           });
  const auto numbers = y.at("y").as<float>();
  EXPECT_TRUE(std::isnan(numbers[0]) && std::isnan(numbers[1]));
  EXPECT_EQ(numbers[2], 3);
}

TEST(Pooling, RefusesAWindowOfPadding) {
  expect_error(
      [] {
        infer_case({{DType::f32, {1, 1, 4}}}, [](const Inputs& in) {
          return Outputs{emit(ops::MaxPool{{{1}, {1}, {3}, {3}}, {2}}, {in[0]})};
        });
      },
      {"max_pool", "padding of 3"});
}

}  // namespace
}  // namespace genesis::testing
