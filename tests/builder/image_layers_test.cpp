// Tests the layers of convolutional networks, and what inference makes of a convolution with a batch norm.
#include "builder/image_layers.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "backends/cpu/kernels.h"
#include "executor/inspector.h"
#include "passes/core/match.h"
#include "passes/fusion/packed_weights.h"
#include "passes/fusion/passes.h"
#include "passes/simplify/passes.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/pooling.h"
#include "schema/ops/tensor/layout.h"
#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using Names = std::vector<std::string>;

Names names_of(const Model& model) {
  Names names;
  for (const State& state : model.states()) names.push_back(state.name + " " + state.type.to_string());
  return names;
}

TEST(ImageLayers, HaveTorchsNames) {
  Model model;
  const Scope root(model, 1);
  const nn::Conv2d conv(root / "conv", 4, 6, {3}, {.conv = {.groups = 2}});
  const nn::ConvTranspose1d up(root / "up", 4, 6, {2}, {.conv = {.stride = {2}}, .bias = false});
  const nn::BatchNorm2d norm(root / "norm", 6);
  const nn::GroupNorm groups(root / "groups", 2, 6);
  const nn::InstanceNorm2d each(root / "each", 6);
  EXPECT_EQ(names_of(model),
            (Names{"conv.weight f32[6,2,3,3]", "conv.bias f32[6]", "up.weight f32[4,6,2]",
                   "norm.weight f32[6]", "norm.bias f32[6]", "norm.running_mean f32[6]",
                   "norm.running_var f32[6]", "groups.weight f32[6]", "groups.bias f32[6]"}));
  expect_error([&] { nn::Conv2d(root / "odd", 3, 6, {3}, {.conv = {.groups = 2}}); },
               {"layer 'odd'", "2 groups"});
  expect_error([&] { nn::GroupNorm(root / "odd", 4, 6); }, {"layer 'odd'", "4 groups"});
}

TEST(ImageLayers, HaveTorchsShapes) {
  Model model;
  const Scope root(model, 1);
  GraphBuilder g(model, "f");
  const Value x = g.input("x", DType::f32, {2, 4, 9, 8});
  const auto shape = [](Value y) { return y.shape().to_string(); };
  EXPECT_EQ(shape(nn::Conv2d(root / "a", 4, 6, {3}, {.conv = {.stride = {2}, .padding = {1}}})(x)),
            "[2,6,5,4]");
  EXPECT_EQ(shape(nn::ConvTranspose2d(root / "b", 4, 6, {3},
                                      {.conv = {.stride = {2}, .padding = {1}}, .output_padding = {1}})(x)),
            "[2,6,18,16]");
  EXPECT_EQ(shape(nn::MaxPool2d{{.window = {3}, .stride = {2}, .padding = {1}}}(x)), "[2,4,5,4]");
  EXPECT_EQ(shape(nn::AvgPool2d{{.window = {2}, .ceil_mode = true}}(x)), "[2,4,5,4]");
  EXPECT_EQ(shape(nn::LPPool2d{2, {.window = {2}}}(x)), "[2,4,4,4]");
  EXPECT_EQ(shape(nn::AdaptiveAvgPool2d{{3, 4}}(x)), "[2,4,3,4]");
  EXPECT_EQ(shape(nn::AdaptiveMaxPool2d{{2}}(x)), "[2,4,2,2]");
  EXPECT_EQ(shape(conv(x, zeros(*x.graph, {3, 4, 4, 4}), {}, same_padding(x, {4, 4}, {.stride = {2, 2}}))),
            "[2,3,5,4]");
  expect_error([&] { nn::Conv1d(root / "c", 4, 6, {3})(x); }, {"layer 'c'", "1 spatial axes", "[2,4,9,8]"});
  expect_error([&] { nn::BatchNorm2d(root / "d", 3)(x); }, {"layer 'd'", "[N, 3, ...]"});
}

// A block of a residual network: y = relu(norm(conv(relu6(norm(conv(x))))) + x).
struct Block {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;

  explicit Block(const Scope& s)
      : conv1(s / "conv1", 4, 8, {3}, {.conv = {.padding = {1}}, .bias = false}),
        conv2(s / "conv2", 8, 4, {1}),
        norm1(s / "norm1", 8),
        norm2(s / "norm2", 4) {}
  Value operator()(Value x) const { return relu(norm2(conv2(clamp(norm1(conv1(x)), 0, 6))) + x); }
};

TEST(ImageLayers, InferenceMakesABatchNormPartOfItsConvolution) {
  auto model = std::make_shared<Model>();
  const Block block(Scope(*model, 3) / "block");
  {
    GraphBuilder g(*model, "forward");
    g.output("y", block(g.input("x", DType::f32, {2, 4, 5, 6})));
  }
  scramble(*model);
  const Graph fused = passes::fuse_convolution(*model->entries()[0], {});
  int64_t large = 0;
  std::vector<ConvolutionActivation> activations;
  for (const Node& node : fused.nodes()) {
    large += fused.type(node.outputs[0]).shape.rank() == 4 && fused.type(node.outputs[0]).numel() > 8;
    if (const auto convolution = passes::match<ops::Convolution>(node)) {
      activations.push_back(convolution->activation);
      EXPECT_TRUE(convolution->has_scale && convolution->has_bias);
    }
  }
  EXPECT_EQ(large, 2);
  EXPECT_EQ(activations, (std::vector{ConvolutionActivation::kRelu6, ConvolutionActivation::kRelu}));

  const Tensor x = wave_tensor({2, 4, 5, 6}, 0.3);
  const auto run = [&](const SessionOptions& options) {
    return Session(model, options).run("forward", {{"x", x}}).at("y").to_doubles();
  };
  SessionOptions apart;
  apart.disabled = {"fuse_convolution"};
  const Doubles got = run({}), expected = run(apart);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
}

// Kernels of a GPU take silu and sigmoid, too; those of a CPU do so with packed weights only.
TEST(ImageLayers, AGpuTakesExponentialsBehindAConvolution) {
  auto model = std::make_shared<Model>();
  {
    const Scope s(*model, 3);
    GraphBuilder g(*model, "forward");
    const Value y = silu(nn::Conv2d(s / "a", 4, 8, {1})(g.input("x", DType::f32, {2, 4, 5, 6})));
    g.output("y", sigmoid(nn::Conv2d(s / "b", 8, 8, {1})(y)));
  }
  for (const char* device : {"cpu", "cuda:0"}) {
    Target target;
    target.device = device;
    std::vector<ConvolutionActivation> activations;
    const Graph fused = passes::fuse_convolution(*model->entries()[0], {.target = &target});
    for (const Node& node : fused.nodes())
      if (const auto convolution = passes::match<ops::Convolution>(node))
        activations.push_back(convolution->activation);
    using enum ConvolutionActivation;
    EXPECT_EQ(activations,
              target.device == "cpu" ? (std::vector{kNone, kNone}) : (std::vector{kSilu, kSigmoid}));
  }
}

TEST(ImageLayers, InferenceComputesWhatDependsOnStatesAloneOnce) {
  auto model = std::make_shared<Model>();
  {
    GraphBuilder g(*model, "forward");
    g.output("y", Block(Scope(*model, 3) / "block")(g.input("x", DType::f32, {2, 4, 5, 6})));
  }
  scramble(*model);
  SessionOptions plain;
  plain.optimize = false;
  Session session(model), reference(model, plain);
  EXPECT_EQ(session.plan("forward", {}).steps.size(), 4u);  // two convolutions between two permutes
  const Tensor x = wave_tensor({2, 4, 5, 6}, 0.3);
  for (const char* changed : {"", "block.norm1.weight", "block.norm2.running_mean", "block.conv1.weight"}) {
    for (Session* each : {&session, &reference})
      if (*changed) each->set_state(changed, wave_tensor(each->state(changed).shape().sizes(), 0.7));
    const Doubles got = session.run("forward", {{"x", x}}).at("y").to_doubles(),
                  expected = reference.run("forward", {{"x", x}}).at("y").to_doubles();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << changed << " " << i;
  }
}

struct PackedCase {
  int64_t in, out, window, stride, padding, dilation, groups;
  std::vector<int64_t> sizes;

  std::vector<int64_t> x() const {
    std::vector<int64_t> shape = {2, in};
    shape.insert(shape.end(), sizes.begin(), sizes.end());
    return shape;
  }
};

// A convolution with a bias, and what may lie behind it.
std::shared_ptr<Model> packed_model(const PackedCase& c) {
  auto model = std::make_shared<Model>();
  const auto each = [&](int64_t n) { return std::vector<int64_t>(c.sizes.size(), n); };
  std::vector<int64_t> window = {c.out, c.in / c.groups};
  window.resize(c.sizes.size() + 2, c.window);
  const Scope s(*model, 3);
  const Parameter weight = s.parameter("weight", Shape::of(window), init::zeros()),
                  bias = s.parameter("bias", {c.out}, init::zeros());
  {
    GraphBuilder g(*model, "forward");
    const Windows windows{each(c.stride), each(c.dilation), each(c.padding), each(c.padding)};
    const Value x = g.input("x", DType::f32, Shape::of(c.x()));
    const Value y = convolution({.windows = windows, .groups = c.groups},
                                {x, weight.in(g.graph()), {}, bias.in(g.graph())});
    const Windows pool{each(1), each(1), each(1), each(1)};
    g.output("y", silu(y));
    g.output("pooled", emit(ops::MaxPool{pool, each(3)}, {y}));
    g.output("mean", emit(ops::AveragePool{pool, each(3)}, {y}));
  }
  scramble(*model);
  return model;
}

// On a CPU, weights are packed once and channels come last; every form of a convolution computes the same.
TEST(ImageLayers, PackedWeightsComputeTheSame) {
  for (const PackedCase& c : std::vector<PackedCase>{{3, 20, 3, 2, 1, 1, 1, {9, 11}},
                                                     {3, 16, 7, 2, 3, 1, 1, {17, 12}},
                                                     {10, 70, 1, 1, 0, 1, 1, {5, 7}},
                                                     {16, 90, 3, 1, 1, 1, 1, {6, 5}},
                                                     {9, 33, 3, 2, 2, 2, 1, {8, 9}},
                                                     {12, 5, 3, 1, 1, 1, 1, {13}},
                                                     {12, 5, 3, 1, 1, 1, 1, {3, 4, 5}},
                                                     {40, 40, 3, 1, 1, 1, 40, {12, 13}},
                                                     {20, 20, 5, 2, 2, 1, 20, {9, 8}},
                                                     {6, 32, 3, 1, 1, 1, 2, {5, 5}},
                                                     {6, 8, 3, 1, 1, 1, 2, {5, 5}}}) {
    const auto model = packed_model(c);
    SessionOptions plain;
    plain.optimize = false;
    const Tensor x = wave_tensor(c.x(), 0.3);
    Session session(model);
    const int64_t packed_out = c.out / c.groups == 4 ? 0 : c.out;  // four channels of a group fill no vector
    const Plan plan = session.plan("forward");
    const auto step = std::ranges::find(plan.steps, &kOpDef<ops::Convolution>, &Step::op);
    ASSERT_NE(step, plan.steps.end());
    EXPECT_EQ(from_attributes<ops::Convolution>(step->attributes).packed_out, packed_out);
    const auto got = session.run("forward", {{"x", x}}),
               expected = Session(model, plain).run("forward", {{"x", x}});
    for (const auto& [name, value] : expected) {
      const Doubles a = got.at(name).to_doubles(), b = value.to_doubles();
      for (size_t i = 0; i < b.size(); ++i)
        ASSERT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(b[i])))
            << name << " " << c.in << " to " << c.out << " at " << i;
    }
  }
}

// Layers of many rows are convolutions over their rows, whatever way their weights lie and whatever follows them.
TEST(ImageLayers, LayersOfManyRowsHavePackedWeights) {
  auto model = std::make_shared<Model>();
  const Scope s(*model, 3);
  const Parameter first = s.parameter("first", {40, 20}, init::zeros()),
                  second = s.parameter("second", {40, 20}, init::zeros()),
                  bias = s.parameter("bias", {40}, init::zeros());
  {
    GraphBuilder g(*model, "forward");
    const Value x = g.input("x", DType::f32, {2, 9, 20});
    const Value hidden = gelu(linear(x, first.in(g.graph()), bias.in(g.graph())));
    g.output("y", matmul(hidden, second.in(g.graph())) + x);
  }
  scramble(*model);
  SessionOptions plain;
  plain.optimize = false;
  Session session(model), reference(model, plain);
  const Plan plan = session.plan("forward");
  EXPECT_EQ(std::ranges::count(plan.steps, &kOpDef<ops::Convolution>, &Step::op), 2);
  const Tensor x = wave_tensor({2, 9, 20}, 0.3);
  for (const char* changed : {"", "second"}) {
    for (Session* each : {&session, &reference})
      if (*changed) each->set_state(changed, wave_tensor(each->state(changed).shape().sizes(), 0.7));
    const Doubles got = session.run("forward", {{"x", x}}).at("y").to_doubles(),
                  expected = reference.run("forward", {{"x", x}}).at("y").to_doubles();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << changed << " " << i;
  }
  const int64_t packed = 2 * 48 * 20 * 4;  // the bytes of both weights, whose outputs are whole panels
  EXPECT_GE(Inspector(session).memory().arena_bytes, plan.arena_bytes + packed);
}

// Layers that share a weight share its packed form, which lies in memory once.
TEST(ImageLayers, LayersWithOneWeightPackItOnce) {
  Model model;
  const Scope s(model, 3);
  const Parameter weight = s.parameter("weight", {32, 32}, init::zeros());
  {
    GraphBuilder g(model, "forward");
    Value x = g.input("x", DType::f32, {18, 32});
    for (int i = 0; i < 3; ++i) x = relu(linear(x, weight.in(g.graph())));
    g.output("y", matmul(x, weight.in(g.graph())));
  }
  const Target target = cpu::cpu_target();
  const Graph packed = passes::pack_weights(model.entry("forward"), {.target = &target});
  std::set<ValueId> weights;
  for (const Node& node : packed.nodes())
    if (node.op == &kOpDef<ops::Convolution>) weights.insert(node.inputs[1]);
  EXPECT_EQ(weights.size(), 2u);  // The product reads the transposed weight.
}

// Following every addition of a chain to its product would take a quadratic time, and a deep stack.
TEST(ImageLayers, ALongChainBehindALayerIsFollowedShortly) {
  Model model;
  const Scope s(model, 3);
  const Parameter weight = s.parameter("weight", {32, 32}, init::zeros());
  {
    GraphBuilder g(model, "forward");
    const Value x = g.input("x", DType::f32, {18, 32});
    Value y = matmul(x, weight.in(g.graph()));
    for (int i = 0; i < 20000; ++i) y = y + x;
    g.output("y", y);
  }
  const auto start = std::chrono::steady_clock::now();
  const Target target = cpu::cpu_target();
  const Graph packed = passes::pack_weights(model.entry("forward"), {.target = &target});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  EXPECT_EQ(std::ranges::count(packed.nodes(), &kOpDef<ops::Convolution>, &Node::op), 1);
}

// Walking every path to a state would take 2 ^ 64 steps.
TEST(ImageLayers, AWeightThatIsReadTwiceOverAndOverDependsOnStatesAlone) {
  Model model;
  const Scope s(model, 3);
  const Parameter weight = s.parameter("weight", {3}, init::zeros());
  GraphBuilder g(model, "forward");
  Value still = weight.in(g.graph()), changing = g.input("x", DType::f32, {3});
  for (int i = 0; i < 64; ++i) still = still * still, changing = changing + changing;
  g.output("y", still + changing);
  const auto depends = [&](Value value) { return passes::depends_on_states_alone(g.graph(), value.id); };
  EXPECT_TRUE(depends(still));
  EXPECT_TRUE(depends(still * g.full({3}, 2.0)));
  EXPECT_FALSE(depends(changing));
  EXPECT_FALSE(depends(still * changing));
}

KernelChoice takes_any_layout(const KernelQuery&) {
  return {.name = "any", .declined = {}, .decided_later = {}};
}

// A network with everything that may lie between convolutions: pooling, a batch norm, a residual, a concatenation and a mean.
Value mixed_network(const Scope& s, Value image) {
  const Value x = nn::Conv2d(s / "stem", 4, 4, {1})(image);
  const Value y = nn::MaxPool2d{{.window = {2}}}(Block(s / "block")(x));
  const Value z = nn::AvgPool2d{{.window = {2}}}(nn::Conv2d(s / "conv", 4, 3, {1})(relu(x)));
  const Value both =
      nn::Conv2d(s / "last", 7, 5, {3}, {.conv = {.padding = {1}, .groups = 1}})(concat({y, z}, 1));
  return mean(both * sigmoid(both), {2, 3});
}

// Returns a training step of the network's mean square in bf16, and the same with its channels last.
using Network = std::function<Value(const Scope&, Value)>;
std::pair<std::shared_ptr<const Model>, std::shared_ptr<const Model>> in_both_layouts(const Network& network,
                                                                                      const Shape& x) {
  auto model = std::make_shared<Model>();
  {
    GraphBuilder g(*model, "loss", Mode::kTrain);
    const Value y = network(Scope(*model, 3), g.input("x", DType::f32, x));
    g.output("loss", mean(square(y)));
  }
  passes::add_training(*model,
                       {.optimizer = optim::SGD{.lr = 0.5}, .precision = passes::TrainPrecision::kBf16});
  scramble(*model);
  Target target;
  target.choose = takes_any_layout;
  const Graph step = passes::eliminate_common_subexpressions(model->entry("train_step"), {});
  std::shared_ptr<Model> moved = Model::with_tables_of(*model);
  moved->replace_entry(copy_graph(passes::channels_last(step, {.target = &target}), *moved));
  return {model, moved};
}

void expect_same_training(const std::shared_ptr<const Model>& model,
                          const std::shared_ptr<const Model>& moved, const std::vector<int64_t>& x) {
  const auto trained = [&](const std::shared_ptr<const Model>& of) {
    Session session(of);
    Doubles all = session.run("train_step", {{"x", wave_tensor(x, 0.3)}}).at("loss").to_doubles();
    for (const auto& [name, value] : session.states())
      for (const double number : value.to_doubles()) all.push_back(number);
    return all;
  };
  const Doubles got = trained(moved), expected = trained(model);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-2) << i;
}

TEST(ImageLayers, ChannelsComeLastWhereATargetWantsIt) {
  const auto [model, moved] = in_both_layouts(mixed_network, {2, 4, 6, 8});
  const Graph& last = moved->entry("train_step");
  int64_t permutes = 0;
  for (const Node& node : last.nodes()) {
    permutes += passes::is<ops::Permute>(node);
    const auto convolution = passes::match<ops::Convolution>(node);
    EXPECT_TRUE(!convolution || convolution->windows.channels_last) << node.name;
  }
  EXPECT_EQ(permutes, 5) << to_text(last);  // x, and the two weights of 3 x 3 with their gradients
  expect_same_training(model, moved, {2, 4, 6, 8});
}

// A mean in 16 bits reads them as they are: it is added in f32 anyway.
TEST(ImageLayers, AMeanIn16BitsReadsNoF32) {
  auto model = std::make_shared<Model>();
  {
    GraphBuilder g(*model, "forward");
    const Value x = cast(g.input("x", DType::f32, {2, 8, 4, 6}), DType::bf16);
    const Value y = convolution({.windows = {{1, 1}, {1, 1}, {0, 0}, {0, 0}}},
                                {x, g.full({16, 8, 1, 1}, 0.5, DType::bf16)});
    g.output("kept", cast(mean(cast(y, DType::f32), {2, 3}, true), DType::bf16));
    g.output("dropped", cast(sum(cast(relu(y), DType::f32), {2, 3}), DType::bf16));
  }
  Target target;
  target.device = "cuda:0";
  target.choose = takes_any_layout;
  std::shared_ptr<Model> moved = Model::with_tables_of(*model);
  moved->replace_entry(
      copy_graph(passes::channels_last(model->entry("forward"), {.target = &target}), *moved));
  const Graph& last = moved->entry("forward");
  for (const Node& node : last.nodes())
    if (passes::is<ops::Mean, ops::Sum>(node)) {
      EXPECT_EQ(last.type(node.inputs[0]).dtype, DType::bf16);
    }
  const NamedTensors inputs = {{"x", wave_tensor({2, 8, 4, 6}, 0.3)}};
  NamedTensors got = Session(moved).run("forward", inputs), expected = Session(model).run("forward", inputs);
  for (const char* name : {"kept", "dropped"})
    for (size_t i = 0; i < 32; ++i)
      ASSERT_NEAR(got.at(name).to_doubles()[i], expected.at(name).to_doubles()[i], 0.3) << name << " " << i;
}

// Patches of a picture become tokens whose features stay behind, whatever is added to the tokens.
TEST(ImageLayers, TokensKeepTheirFeaturesLast) {
  const auto network = [](const Scope& s, Value image) {
    const Value patches = nn::Conv2d(s / "patches", 4, 8, {2}, {.conv = {.stride = {2}}})(image);
    Value x = transpose(flatten(patches, 2), 1, 2);
    x = x + (s / "all").parameter("places", {1, 12, 8}, init::normal(0, 0.1)).in(*x.graph);
    for (const char* name : {"first", "second"})
      x = x + nn::Linear(s / name, 8, 8)(nn::LayerNorm(s / name / "norm", 8, 1e-6)(x));
    return x;
  };
  const auto [model, moved] = in_both_layouts(network, {2, 4, 6, 8});
  int64_t sums = 0;
  for (const Node& node : moved->entry("train_step").nodes()) {
    const Shape& shape = moved->entry("train_step").type(node.outputs[0]).shape;
    if (!passes::is<ops::Add>(node) || shape.rank() != 3 || shape[0] != Dim(2)) continue;
    ++sums;
    EXPECT_EQ(shape[2], Dim(8)) << node.name;
  }
  EXPECT_GE(sums, 3);
  expect_same_training(model, moved, {2, 4, 6, 8});
}

// A stride over few channels becomes blocks of pixels, whatever the padding; sizes that blocks do not fill stay as they are.
TEST(ImageLayers, WindowsOverColorsMoveByBlocksOfPixels) {
  struct Case {
    int64_t window, stride, padding, width;
    bool has_blocks;
  };
  for (const Case& c : {Case{7, 2, 3, 12, true}, Case{3, 2, 1, 8, true}, Case{4, 4, 0, 8, true},
                        Case{5, 3, 1, 9, true}, Case{3, 2, 1, 9, false}}) {
    const auto network = [&](const Scope& s, Value image) {
      const nn::Conv2d stem(s / "stem", 3, 4, {c.window},
                            {.conv = {.stride = {c.stride}, .padding = {c.padding}}});
      return nn::Conv2d(s / "point", 4, 2, {1})(relu(stem(image)));
    };
    const auto [model, moved] = in_both_layouts(network, {2, 3, 12, c.width});
    int64_t strided = 0;
    for (const Node& node : moved->entry("train_step").nodes())
      if (const auto convolution = passes::match<ops::Convolution>(node))
        strided += convolution->windows.strides[1] > 1;
    EXPECT_EQ(strided, c.has_blocks ? 0 : 1) << c.window;
    expect_same_training(model, moved, {2, 3, 12, c.width});
  }
}

TEST(ImageLayers, TrainingUpdatesRunningStatistics) {
  auto model = std::make_shared<Model>();
  const nn::BatchNorm2d norm(Scope(*model, 3) / "norm", 2);
  {
    GraphBuilder g(*model, "train", Mode::kTrain);
    g.output("y", norm(g.input("x", DType::f32, {2, 2, 1, 2})));
  }
  Session session(model);
  const auto y = session.run("train", {{"x", tensor({2, 2, 1, 2}, {1, 3, 0, 0, 5, 7, 0, 4})}});
  const Doubles mean = session.state("norm.running_mean").to_doubles(),
                var = session.state("norm.running_var").to_doubles();
  EXPECT_NEAR(mean[0], 0.4, 1e-6);  // 0.1 times the mean of 1, 3, 5, 7
  EXPECT_NEAR(var[0], 0.9 + 0.1 * 20 / 3, 1e-5);
  EXPECT_NEAR(y.at("y").to_doubles()[0], -3 / std::sqrt(5 + 1e-5), 1e-5);
}

}  // namespace
}  // namespace genesis::testing
