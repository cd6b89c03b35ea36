// Tests convolutions in tiles of Hopper chips (backends/cuda/hopper/depthwise and pointwise) at the sizes of networks, where a block
// computes tile after tile, against the plain kernels of a GPU; these are skipped without a GPU. Plans of the same cases, which need no
// GPU, have these kernels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cuda/hopper/implementations.h"
#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "executor/runtime/step_call.h"
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

// The cases of windows that read one channel. Their boxes of x have 32 channels of several rows and columns.
const std::vector<TiledCase> kOfChannels = {
    {4, 112, 112, 16, 16, 3, 1, kRelu},
    {14, 112, 111, 64, 64, 3, 2, kHardswish, true},
    {13, 56, 56, 72, 72, 5, 2, kRelu6},
    {11, 28, 28, 120, 120, 5, 1, kSilu, true, true},
    {40, 14, 14, 200, 200, 3, 1, kHardswish, false, false, DType::f16},
    {33, 14, 14, 672, 672, 5, 2, kSigmoid},
    {33, 7, 7, 960, 960, 5, 1, kHardswish, true},
    {5, 57, 55, 96, 96, 7},
    {30, 14, 14, 384, 384, 7, 1, kNone, true},
    {64, 7, 7, 768, 768, 7, 1, kRelu, false, true},
    // Boxes with an odd number of pixels, two in shared memory.
    {32, 36, 80, 128, 128, 3, 2, kRelu},
    {64, 12, 80, 128, 128, 3, 2}};

const std::vector<TiledCase> kOfPixels = {{6, 112, 112, 40, 64, 1, 1, kRelu, true},
                                          {22, 56, 57, 64, 24, 1, 1, kNone, false, true},
                                          {23, 57, 55, 24, 72, 1, 1, kSilu},
                                          {22, 56, 56, 72, 24, 1, 1, kNone, true, true},
                                          {91, 28, 28, 120, 40, 1, 1, kRelu6, false, true},
                                          {91, 28, 28, 256, 320, 1, 1, kRelu, true, true},
                                          {347, 14, 14, 80, 200, 1, 1, kHardswish},
                                          {349, 14, 14, 200, 88, 1, 1, kSigmoid, true, true}};

struct Operand {
  std::string name;
  TensorType type;
  float low, high;
};

// Returns the operands of a case; of a transposed one x is the gradient of the map.
std::vector<Operand> operands_of(const TiledCase& c, bool transposed) {
  const std::vector<int64_t> x = {c.images, c.rows, c.columns, c.in},
                             weight = {c.out, c.window, c.window, c.is_depthwise() ? 1 : c.in};
  return {{"x", {c.dtype, Shape::of(transposed ? c.map() : x)}, -1, 1},
          {"weight", {c.dtype, Shape::of(weight)}, -0.3f, 0.3f},
          {"scale", {DType::f32, {c.out}}, 0.5f, 2},
          {"bias", {DType::f32, {c.out}}, -1, 1},
          {"addend", {c.dtype, Shape::of(c.map())}, -2, 2}};
}

// Emits the case, or with `transposed` the gradient of its x. `in` are its operands.
Value emit_case(const TiledCase& c, bool transposed, const std::vector<Value>& in) {
  const int64_t groups = c.is_depthwise() ? c.in : 1;
  const std::vector<int64_t> sizes = {c.rows, c.columns};
  if (transposed)
    return convolution_transposed({.windows = c.windows(), .groups = groups, .sizes = Shape::of(sizes)},
                                  in[0], in[1]);
  return convolution({.windows = c.windows(), .groups = groups, .activation = c.activation},
                     {in[0], in[1], c.has_scale ? in[2] : Value{}, in[3], c.has_addend ? in[4] : Value{}});
}

Tensor draw(const Operand& operand, uint64_t stream) {
  std::vector<float> values(static_cast<size_t>(operand.type.numel()));
  fill_uniform(values, 3, stream, operand.low, operand.high);
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(operand.type, &data);
  dispatch(operand.type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = static_cast<T>(values[i]);
      std::memcpy(data + i * sizeof(T), &value, sizeof(T));
    }
  });
  return tensor;
}

std::vector<double> run_case(const TiledCase& c, bool transposed, const std::set<std::string>& disabled) {
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const Operand& operand : operands_of(c, transposed))
    inputs.emplace_back(operand.name, draw(operand, inputs.size()));
  const auto build = [&](const Inputs& in) {
    return std::vector<std::pair<std::string, Value>>{{"y", emit_case(c, transposed, in.values)}};
  };
  return run_graph(inputs, build, {.device = "cuda", .disabled = disabled}).at("y").to_doubles();
}

void check_case(const TiledCase& c, bool transposed) {
  const std::string op = transposed ? "convolution_transposed" : "convolution";
  std::set<std::string> fast;
  for (const char* name : {"depthwise_tiles", "pointwise_tiles", "depthwise", "few_tiles", "cudnn"})
    if (!transposed || std::string(name).starts_with("depthwise") || std::string(name) == "cudnn")
      fast.insert("kernel:" + op + "." + name);
  const std::vector<double> got = run_case(c, transposed, {}), again = run_case(c, transposed, {}),
                            plain = run_case(c, transposed, fast);
  ASSERT_EQ(got.size(), plain.size());
  EXPECT_EQ(got, again) << "another run has other bits";
  for (size_t i = 0; i < plain.size(); ++i)  // both round a sum in f32 once
    ASSERT_NEAR(got[i], plain[i], 0.008 * std::abs(plain[i]) + 0.002)
        << op << " of " << c.rows << " x " << c.columns << " x " << c.in << " by " << c.window << " at " << i;
}

TEST_F(ConvolutionTiles, OfChannelsByThemselves) {
  for (const TiledCase& c : kOfChannels) {
    check_case(c, false);
    if (c.stride == 1) check_case(c, true);
  }
}

TEST_F(ConvolutionTiles, OfSinglePixels) {
  for (const TiledCase& c : kOfPixels) check_case(c, false);
}

// Requires that a plan of the case has the kernel.
void expect_kernel(const TiledCase& c, bool transposed, const std::string& kernel) {
  SCOPED_TRACE(fmt::format("{} x {} x {} by {}, stride {}", c.rows, c.columns, c.in, c.window, c.stride));
  Model model;
  Graph& graph = model.add_entry("main");
  std::vector<Value> in;
  for (const Operand& operand : operands_of(c, transposed))
    in.push_back(graph.add_input(operand.name, operand.type));
  graph.add_output("y", emit_case(c, transposed, in));
  const Target target = target_of("cuda");
  const CompiledEntry compiled = compile_entry(model, "main", {}, target, {});
  std::vector<std::string> names;
  for (const KernelChoice& choice : choices_of(compiled.plan, target, compiled.runner))
    names.push_back(choice.name);
  EXPECT_EQ(std::ranges::count(names, kernel), 1) << fmt::format("{}", fmt::join(names, ", "));
}

TEST(ConvolutionTilesPlan, TheCasesHaveTheseKernels) {
  if (const auto why_not = cuda::why_no_hopper_here()) GTEST_SKIP() << *why_not;
  for (const TiledCase& c : kOfChannels) {
    expect_kernel(c, false, "convolution.depthwise_tiles");
    if (c.stride == 1) expect_kernel(c, true, "convolution_transposed.depthwise_tiles");
  }
  for (const TiledCase& c : kOfPixels) expect_kernel(c, false, "convolution.pointwise_tiles");
}

}  // namespace
}  // namespace genesis::testing
