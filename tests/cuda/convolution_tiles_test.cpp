// Tests convolutions in tiles of Hopper chips (backends/cuda/hopper/depthwise and pointwise) at the sizes of networks, where a block
// computes tile after tile, against the plain kernels of a GPU. Skipped without a GPU.
#include <cmath>
#include <cstring>

#include "schema/core/philox.h"
#include "schema/ops/nn/convolution.h"
#include "tests/cuda/on_gpu.h"

namespace genesis::testing {
namespace {

using ConvolutionTiles = OnGpu;
using enum ConvolutionActivation;

struct TiledCase {
  int64_t images, rows, columns, in, out, window = 1, stride = 1;
  ConvolutionActivation activation = kNone;
  bool has_scale = false, has_addend = false;
  DType dtype = DType::bf16;

  bool is_depthwise() const { return window > 1; }
  Windows windows() const {
    const int64_t pad = window / 2;
    return {{stride, stride}, {1, 1}, {pad, pad}, {pad, pad}, true};
  }
  std::vector<int64_t> map() const {
    const auto positions = [&](int64_t size) { return (size - 1) / stride + 1; };
    return {images, positions(rows), positions(columns), out};
  }
};

Tensor draw(DType dtype, const std::vector<int64_t>& shape, uint64_t stream, float low, float high) {
  const TensorType type{dtype, Shape::of(shape)};
  std::vector<float> values(static_cast<size_t>(type.numel()));
  fill_uniform(values, 3, stream, low, high);
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = static_cast<T>(values[i]);
      std::memcpy(data + i * sizeof(T), &value, sizeof(T));
    }
  });
  return tensor;
}

// Runs the case, or with `transposed` the gradient of its x.
NamedTensors run_case(const TiledCase& c, bool transposed, const std::set<std::string>& disabled) {
  const std::vector<int64_t> x = {c.images, c.rows, c.columns, c.in},
                             weight = {c.out, c.window, c.window, c.is_depthwise() ? 1 : c.in};
  const int64_t groups = c.is_depthwise() ? c.in : 1;
  std::vector<std::pair<std::string, Tensor>> inputs = {
      {"x", draw(c.dtype, transposed ? c.map() : x, 0, -1, 1)},
      {"weight", draw(c.dtype, weight, 1, -0.3f, 0.3f)},
      {"scale", draw(DType::f32, {c.out}, 2, 0.5f, 2)},
      {"bias", draw(DType::f32, {c.out}, 3, -1, 1)},
      {"addend", draw(c.dtype, c.map(), 4, -2, 2)}};
  const auto build = [&](const Inputs& in) -> std::vector<std::pair<std::string, Value>> {
    const std::vector<int64_t> sizes = {c.rows, c.columns};
    if (transposed)
      return {
          {"dx", convolution_transposed({.windows = c.windows(), .groups = groups, .sizes = Shape::of(sizes)},
                                        in[0], in[1])}};
    return {{"y", convolution({.windows = c.windows(), .groups = groups, .activation = c.activation},
                              {in[0], in[1], c.has_scale ? Value(in[2]) : Value{}, in[3],
                               c.has_addend ? Value(in[4]) : Value{}})}};
  };
  return run_graph(inputs, build, {.device = "cuda", .disabled = disabled});
}

void check_case(const TiledCase& c, bool transposed) {
  const std::string op = transposed ? "convolution_transposed" : "convolution";
  std::set<std::string> fast;
  for (const char* name : {"depthwise_tiles", "pointwise_tiles", "depthwise", "few_tiles", "cudnn"})
    if (!transposed || std::string(name).starts_with("depthwise") || std::string(name) == "cudnn")
      fast.insert("kernel:" + op + "." + name);
  const std::string result = transposed ? "dx" : "y";
  const std::vector<double> got = run_case(c, transposed, {}).at(result).to_doubles(),
                            again = run_case(c, transposed, {}).at(result).to_doubles(),
                            plain = run_case(c, transposed, fast).at(result).to_doubles();
  ASSERT_EQ(got.size(), plain.size());
  EXPECT_EQ(got, again) << "another run has other bits";
  for (size_t i = 0; i < plain.size(); ++i)  // both round a sum in f32 once
    ASSERT_NEAR(got[i], plain[i], 0.008 * std::abs(plain[i]) + 0.002)
        << op << " of " << c.rows << " x " << c.columns << " x " << c.in << " by " << c.window << " at " << i;
}

TEST_F(ConvolutionTiles, OfChannelsByThemselves) {
  for (const TiledCase& c :
       std::vector<TiledCase>{{4, 112, 112, 16, 16, 3, 1, kRelu},
                              {3, 112, 111, 64, 64, 3, 2, kHardswish, true},
                              {5, 56, 56, 72, 72, 5, 2, kRelu6},
                              {8, 28, 28, 120, 120, 5, 1, kSilu, true, true},
                              {40, 14, 14, 200, 200, 3, 1, kHardswish, false, false, DType::f16},
                              {33, 14, 14, 672, 672, 5, 2, kSigmoid},
                              {33, 7, 7, 960, 960, 5, 1, kHardswish, true},
                              {5, 57, 55, 96, 96, 7},
                              {30, 14, 14, 384, 384, 7, 1, kNone, true},
                              {64, 7, 7, 768, 768, 7, 1, kRelu, false, true}}) {
    check_case(c, false);
    if (c.stride == 1) check_case(c, true);
  }
}

TEST_F(ConvolutionTiles, OfSinglePixels) {
  for (const TiledCase& c : std::vector<TiledCase>{{6, 112, 112, 40, 64, 1, 1, kRelu, true},
                                                   {22, 56, 57, 64, 24, 1, 1, kNone, false, true},
                                                   {23, 57, 55, 24, 72, 1, 1, kSilu},
                                                   {22, 56, 56, 72, 24, 1, 1, kNone, true, true},
                                                   {91, 28, 28, 120, 40, 1, 1, kRelu6, false, true},
                                                   {91, 28, 28, 256, 320, 1, 1, kRelu, true, true},
                                                   {347, 14, 14, 80, 200, 1, 1, kHardswish},
                                                   {349, 14, 14, 200, 88, 1, 1, kSigmoid, true, true}})
    check_case(c, false);
}

}  // namespace
}  // namespace genesis::testing
