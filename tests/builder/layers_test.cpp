// Tests layers against plain loops in double: values, PyTorch's parameter names, shapes and defaults.
#include "passes/training/autodiff.h"
#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

// x [rows, in], weight [out, in] -> [rows, out]
Doubles linear_reference(const Doubles& x, const Doubles& weight, const Doubles& bias, size_t in) {
  const size_t rows = x.size() / in, out = weight.size() / in;
  Doubles y(rows * out);
  for (size_t r = 0; r < rows; ++r)
    for (size_t o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0 : bias[o];
      for (size_t i = 0; i < in; ++i) sum += x[r * in + i] * weight[o * in + i];
      y[r * out + o] = sum;
    }
  return y;
}

TEST(Layers, LinearIsPyTorchs) {
  Model model;
  const nn::Linear fc(Scope(model, 3) / "fc", 16, 5);
  EXPECT_EQ(state_names(model), (Names{"fc.weight f32[5,16]", "fc.bias f32[5]"}));
  for (const char* name : {"fc.weight", "fc.bias"}) {
    EXPECT_TRUE(model.state(model.find_state(name)).trainable);
    EXPECT_EQ(model.state(model.find_state(name)).role, StateRole::kParameter);
    for (double value : state_of(model, name)) EXPECT_LE(std::abs(value), 0.25);  // 1 / sqrt(16)
  }
  scramble(model);
  const Tensor x = wave_tensor({2, 3, 16}, 0.1);
  const LayerRun run = run_layer(model, {x}, [&](const auto& v) { return fc(v[0]); });
  EXPECT_EQ(run.outputs.at("y").type().shape.to_string(), "[2,3,5]");
  expect_near(run.y(),
              linear_reference(x.to_doubles(), state_of(model, "fc.weight"), state_of(model, "fc.bias"), 16));
}

TEST(Layers, LinearWithoutBiasAndWithAnInitializerOfItsOwn) {
  Model model;
  const init::Init init = init::constant(0.5);
  const nn::Linear plain(Scope(model) / "plain", 4, 3, {.bias = false});
  const nn::Linear filled(Scope(model) / "filled", 4, 3, {.init = init});
  EXPECT_FALSE(plain.bias);
  EXPECT_EQ(state_names(model),
            (Names{"plain.weight f32[3,4]", "filled.weight f32[3,4]", "filled.bias f32[3]"}));
  EXPECT_EQ(state_of(model, "filled.weight"), Doubles(12, 0.5));
  EXPECT_EQ(state_of(model, "filled.bias"), Doubles(3, 0.0));
  const Tensor x = wave_tensor({2, 4}, 0.1);
  expect_near(run_layer(model, {x}, [&](const auto& v) { return plain(v[0]); }).y(),
              linear_reference(x.to_doubles(), state_of(model, "plain.weight"), {}, 4));
}

TEST(Layers, EmbeddingReadsRows) {
  Model model;
  const nn::Embedding embed(Scope(model) / "embed", 7, 3);
  EXPECT_EQ(state_names(model), Names{"embed.weight f32[7,3]"});
  const Doubles weight = state_of(model, "embed.weight");
  const Tensor ids = Tensor::of<int64_t>({2, 2}, {6, 0, 3, 3});
  const LayerRun run = run_layer(model, {ids}, [&](const auto& v) { return embed(v[0]); });
  Doubles expected;
  for (size_t id : {6, 0, 3, 3})
    for (size_t i = 0; i < 3; ++i) expected.push_back(weight[id * 3 + i]);
  EXPECT_EQ(run.y(), expected);
}

// The padding row starts as zeros, as in PyTorch, and gets no gradient. A row used twice gets the sum of both
// gradients.
TEST(Layers, EmbeddingPaddingRowStartsAtZeroAndStaysThere) {
  Model model;
  const nn::Embedding embed(Scope(model) / "embed", 5, 2, 1);
  const Doubles weight = state_of(model, "embed.weight");
  EXPECT_EQ(weight[2], 0);
  EXPECT_EQ(weight[3], 0);
  EXPECT_NE(weight[0], 0);
  EXPECT_NE(weight[4], 0);
  const Tensor ids = Tensor::of<int64_t>({4}, {1, 4, 4, 0});
  const LayerRun run =
      run_outputs(model, {ids}, [&](const auto& v) -> std::vector<std::pair<std::string, Value>> {
        Graph& graph = *v[0].graph;
        return {{"d", passes::gradients(graph, sum(embed(v[0])), {embed.weight.in(graph)})[0]}};
      });
  EXPECT_EQ(run.y("d"), (Doubles{1, 1, 0, 0, 0, 0, 0, 0, 2, 2}));
  expect_error([&] { nn::Embedding(Scope(model) / "other", 5, 2, 5); }, {"other", "padding_idx", "5"});
}

Doubles norm_reference(const Doubles& x, size_t size, double eps, bool center) {
  Doubles y(x.size());
  for (size_t from = 0; from < x.size(); from += size) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < size; ++i) mean += x[from + i] / static_cast<double>(size);
    if (!center) mean = 0;
    for (size_t i = 0; i < size; ++i) squares += (x[from + i] - mean) * (x[from + i] - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(size) + eps);
    for (size_t i = 0; i < size; ++i) y[from + i] = (x[from + i] - mean) * scale;
  }
  return y;
}

Doubles affine(Doubles y, const Doubles& weight, const Doubles& bias) {
  const size_t size = std::max(weight.size(), bias.size());
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = y[i] * (weight.empty() ? 1 : weight[i % size]) + (bias.empty() ? 0 : bias[i % size]);
  return y;
}

TEST(Layers, LayerNormOverOneAndTwoAxes) {
  Model model;
  const nn::LayerNorm one(Scope(model) / "one", {4}), two(Scope(model) / "two", {3, 4}, 0.1);
  EXPECT_EQ(state_names(model),
            (Names{"one.weight f32[4]", "one.bias f32[4]", "two.weight f32[3,4]", "two.bias f32[3,4]"}));
  EXPECT_EQ(state_of(model, "one.weight"), Doubles(4, 1.0));
  EXPECT_EQ(state_of(model, "one.bias"), Doubles(4, 0.0));
  scramble(model);
  const Tensor x = wave_tensor({2, 3, 4}, 0.3);
  expect_near(run_layer(model, {x}, [&](const auto& v) { return one(v[0]); }).y(),
              affine(norm_reference(x.to_doubles(), 4, 1e-5, true), state_of(model, "one.weight"),
                     state_of(model, "one.bias")));
  expect_near(run_layer(model, {x}, [&](const auto& v) { return two(v[0]); }).y(),
              affine(norm_reference(x.to_doubles(), 12, 0.1, true), state_of(model, "two.weight"),
                     state_of(model, "two.bias")));
}

TEST(Layers, LayerNormWithoutBiasAndWithoutParameters) {
  Model model;
  const nn::LayerNorm unbiased(Scope(model) / "unbiased", {4}, 1e-5, true, false);
  const nn::LayerNorm bare(Scope(model) / "bare", {4}, 1e-5, false),
      wide(Scope(model) / "wide", {3, 4}, 1e-5, false);
  EXPECT_EQ(state_names(model), Names{"unbiased.weight f32[4]"});
  scramble(model);
  const Tensor x = wave_tensor({2, 3, 4}, 0.3);
  expect_near(run_layer(model, {x}, [&](const auto& v) { return unbiased(v[0]); }).y(),
              affine(norm_reference(x.to_doubles(), 4, 1e-5, true), state_of(model, "unbiased.weight"), {}));
  expect_near(run_layer(model, {x}, [&](const auto& v) { return bare(v[0]); }).y(),
              norm_reference(x.to_doubles(), 4, 1e-5, true));
  expect_near(run_layer(model, {x}, [&](const auto& v) { return wide(v[0]); }).y(),
              norm_reference(x.to_doubles(), 12, 1e-5, true));
}

TEST(Layers, LayerNormRefusesOtherSizes) {
  Model model;
  const nn::LayerNorm norm(Scope(model) / "norm", {4}), bare(Scope(model) / "bare", {4}, 1e-5, false);
  const Tensor x = wave_tensor({2, 5}, 0.3);
  expect_error([&] { run_layer(model, {x}, [&](const auto& v) { return norm(v[0]); }); },
               {"norm", "[4]", "[2,5]"});
  expect_error([&] { run_layer(model, {x}, [&](const auto& v) { return bare(v[0]); }); },
               {"bare", "[4]", "[2,5]"});
}

TEST(Layers, ValuesThatWereNeverAssignedAreNamed) {
  Model model;
  const Scope s(model);
  GraphBuilder g(model, "f", Mode::kTrain);
  const Value x = g.input("x", DType::f32, {2, 4});
  const nn::Layer layers[] = {nn::Linear(s / "fc", 4, 3), nn::LayerNorm(s / "ln", {4}),
                              nn::Dropout(s / "drop"), nn::Embedding(s / "emb", 5, 4),
                              nn::BatchNorm1d(s / "bn", 4)};
  for (const nn::Layer& layer : layers) expect_error([&] { layer(Value{}); }, {"layer '", "empty value"});
  const std::function<void()> uses[] = {[&] { relu(Value{}); },
                                        [&] { x + Value{}; },
                                        [&] { Value{} * 2.0; },
                                        [&] { zeros_like(Value{}); },
                                        [&] { sum(Value{}); },
                                        [&] {
                                          concat({x, {}}, 0);
                                        },
                                        [&] { dropout(Value{}, x, 0.5); },
                                        [&] { softmax(Value{}); },
                                        [&] { reshape(Value{}, {2}); },
                                        [&] { attention({}, {}, {}); },
                                        [&] { cross_entropy({}, {}); },
                                        [&] {
                                          einsum("i,i->", {x, {}});
                                        },
                                        [&] { rope(x, {}); },
                                        [&] { split(Value{}, {1}, 0); }};
  for (const auto& use : uses) expect_error(use, {"empty value"});
}

TEST(Layers, StatesThatAreNotThereAreNearThoseThatAre) {
  Model model;
  const nn::Linear fc(Scope(model) / "fc1", 4, 3);
  GraphBuilder g(model, "f");
  expect_error([&] { g.state("fc1.wieght"); }, {"no state 'fc1.wieght', but fc1.weight"});
  expect_error([&] { g.state("head"); }, {"no state 'head'; "});
}

TEST(Layers, RmsNorm) {
  Model model;
  const nn::RMSNorm norm(Scope(model) / "norm", 4);
  EXPECT_EQ(state_names(model), Names{"norm.weight f32[4]"});
  EXPECT_EQ(state_of(model, "norm.weight"), Doubles(4, 1.0));
  scramble(model);
  const Tensor x = wave_tensor({2, 3, 4}, 0.3);
  expect_near(run_layer(model, {x}, [&](const auto& v) { return norm(v[0]); }).y(),
              affine(norm_reference(x.to_doubles(), 4, 0x1p-23, false), state_of(model, "norm.weight"), {}));
}

// torch.nn.RMSNorm(normalized_shape), with and without weights.
TEST(Layers, RmsNormOverTwoAxes) {
  Model model;
  const nn::RMSNorm norm(Scope(model) / "norm", {3, 4}, 0.1),
      plain(Scope(model) / "plain", {3, 4}, 0.1, false);
  EXPECT_EQ(state_names(model), Names{"norm.weight f32[3,4]"});
  scramble(model);
  const Tensor x = wave_tensor({2, 3, 4}, 0.3);
  const Doubles expected = norm_reference(x.to_doubles(), 12, 0.1, false);
  expect_near(run_layer(model, {x}, [&](const auto& v) { return norm(v[0]); }).y(),
              affine(expected, state_of(model, "norm.weight"), {}));
  expect_near(run_layer(model, {x}, [&](const auto& v) { return plain(v[0]); }).y(), expected);
  GraphBuilder g(model, "wrong");
  const Value wrong = g.input("x", DType::f32, {2, 4, 3});
  expect_error([&] { plain(wrong); }, {"'plain'", "last axes [3,4]", "[2,4,3]"});
  expect_error([&] { nn::RMSNorm(Scope(model) / "none", std::vector<int64_t>{}); },
               {"'none'", "normalized_shape"});
}

// The gradient goes through all normalized axes. It is compared with central differences.
TEST(Layers, TheGradientOfRmsNormOverTwoAxes) {
  Model model;
  const nn::RMSNorm norm(Scope(model) / "norm", {2, 3}, 1e-3);
  scramble(model);
  const Doubles start = wave(12, 0.3), mix = wave(12, 1.1);
  const auto loss_of = [&](Value x, Value weights) { return sum(norm(x) * weights); };
  const LayerRun run =
      run_outputs(model, {tensor({2, 2, 3}, start), tensor({2, 2, 3}, mix)},
                  [&](const auto& v) -> std::vector<std::pair<std::string, Value>> {
                    const Value loss = loss_of(v[0], v[1]);
                    return {{"loss", loss}, {"d", passes::gradients(*v[0].graph, loss, {v[0]})[0]}};
                  });
  Session session(std::make_shared<Model>(model));
  const auto loss_at = [&](const Doubles& x) {
    return session.run("run0", {{"x0", tensor({2, 2, 3}, x)}, {"x1", tensor({2, 2, 3}, mix)}})
        .at("loss")
        .item<double>();
  };
  for (size_t i = 0; i < start.size(); ++i) {
    Doubles up = start, down = start;
    up[i] += 1e-2, down[i] -= 1e-2;
    EXPECT_NEAR(run.y("d")[i], (loss_at(up) - loss_at(down)) / 2e-2, 1e-3) << i;
  }
}

// The default eps of torch.nn.RMSNorm depends on the dtype of its computation.
TEST(Layers, RmsNormTakesTheEpsOfItsNumbersWhenNoneIsGiven) {
  const auto first = [](DType dtype, std::optional<double> eps) {
    Model model;
    const nn::RMSNorm norm(Scope(model, 0, dtype) / "norm", 4, eps, /*elementwise_affine=*/false);
    EXPECT_EQ(model.states().size(), 0u);
    const Tensor x = dtype == DType::f64 ? Tensor::of<double>({1, 4}, {1e-3, 1e-3, 1e-3, 1e-3})
                                         : Tensor::of<float>({1, 4}, {1e-3f, 1e-3f, 1e-3f, 1e-3f});
    return run_layer(model, {x}, [&](const auto& v) { return norm(v[0]); }).y()[0];
  };
  EXPECT_NEAR(first(DType::f32, {}), 1 / std::sqrt(1 + 0x1p-23 * 1e6), 1e-6);
  EXPECT_NEAR(first(DType::f64, {}), 1, 1e-9);
  EXPECT_NEAR(first(DType::f32, 1e-6), std::sqrt(0.5), 1e-6);
}

// x [n, c, l]
void expect_batch_norm(const std::vector<int64_t>& sizes) {
  Model model;
  const nn::BatchNorm1d norm(Scope(model) / "bn", 3);
  EXPECT_EQ(state_names(model),
            (Names{"bn.weight f32[3]", "bn.bias f32[3]", "bn.running_mean f32[3]", "bn.running_var f32[3]"}));
  EXPECT_EQ(state_of(model, "bn.running_mean"), Doubles(3, 0.0));
  EXPECT_EQ(state_of(model, "bn.running_var"), Doubles(3, 1.0));
  EXPECT_FALSE(model.state(model.find_state("bn.running_mean")).trainable);
  EXPECT_EQ(model.state(model.find_state("bn.running_var")).role, StateRole::kBuffer);
  scramble(model);
  const Tensor x = wave_tensor(sizes, 0.2);
  const Doubles data = x.to_doubles(), weight = state_of(model, "bn.weight"),
                bias = state_of(model, "bn.bias");
  const Doubles mean = state_of(model, "bn.running_mean"), var = state_of(model, "bn.running_var");
  const size_t n = static_cast<size_t>(sizes[0]), l = sizes.size() > 2 ? static_cast<size_t>(sizes[2]) : 1;
  const double count = static_cast<double>(n * l);
  Doubles trained(data.size()), evaluated(data.size()), next_mean(3), next_var(3);
  for (size_t c = 0; c < 3; ++c) {
    double m = 0, squares = 0;
    const auto each = [&](auto&& visit) {
      for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < l; ++k) visit((i * 3 + c) * l + k);
    };
    each([&](size_t at) { m += data[at] / count; });
    each([&](size_t at) { squares += (data[at] - m) * (data[at] - m); });
    each([&](size_t at) {
      trained[at] = (data[at] - m) / std::sqrt(squares / count + 1e-5) * weight[c] + bias[c];
      evaluated[at] = (data[at] - mean[c]) / std::sqrt(var[c] + 1e-5) * weight[c] + bias[c];
    });
    next_mean[c] = 0.9 * mean[c] + 0.1 * m;
    next_var[c] = 0.9 * var[c] + 0.1 * squares / (count - 1);
  }
  const LayerRun train = run_layer(
      model, {x}, [&](const auto& v) { return norm(v[0]); }, Mode::kTrain);
  expect_near(train.y(), trained, 1e-5);
  expect_near(train.session.state("bn.running_mean").to_doubles(), next_mean);
  expect_near(train.session.state("bn.running_var").to_doubles(), next_var);
  const LayerRun eval = run_layer(model, {x}, [&](const auto& v) { return norm(v[0]); });
  expect_near(eval.y(), evaluated);
  EXPECT_EQ(eval.session.state("bn.running_mean").to_doubles(), mean);
}

TEST(Layers, BatchNorm1dOfRowsTrainsAndEvaluates) { expect_batch_norm({6, 3}); }
TEST(Layers, BatchNorm1dOfSequencesTrainsAndEvaluates) { expect_batch_norm({4, 3, 5}); }

// A batch whose size turns out to be 1 has no unbiased variance. The running statistics must stay finite.
TEST(Layers, BatchNorm1dOfOneRowKeepsFiniteStatistics) {
  auto model = std::make_shared<Model>();
  const nn::BatchNorm1d norm(Scope(*model) / "bn", 2);
  GraphBuilder g(*model, "train", Mode::kTrain);
  g.output("y", norm(g.input("x", DType::f32, {symbol("batch"), 2})));
  GraphBuilder known(*model, "known", Mode::kTrain);
  expect_error([&] { norm(known.input("x", DType::f32, {1, 2})); }, {"more than one value per channel"});
  Session session(model);
  session.run("train", {{"x", tensor({1, 2}, {3, -4})}});
  expect_near(session.state("bn.running_mean").to_doubles(), {0.3, -0.4});
  expect_near(session.state("bn.running_var").to_doubles(), {0.9, 0.9});
}

// Each use updates the statistics that the previous use left.
TEST(Layers, BatchNorm1dTwiceInOneTrainingGraphMovesItsStatisticsTwice) {
  auto model = std::make_shared<Model>();
  const nn::BatchNorm1d norm(Scope(*model) / "bn", 2);
  GraphBuilder g(*model, "train", Mode::kTrain);
  for (const char* x : {"a", "b"}) g.output(std::string("y") + x, norm(g.input(x, DType::f32, {2, 2})));
  Session session(model);
  const NamedTensors inputs = {{"a", tensor({2, 2}, {1, 10, 3, 20})}, {"b", tensor({2, 2}, {-1, 0, -5, 8})}};
  for (int run = 0; run < 2; ++run) session.run("train", inputs);
  double mean[2] = {0, 0}, variance[2] = {1, 1};
  const double means[2][2] = {{2, 15}, {-3, 4}}, variances[2][2] = {{2, 50}, {8, 32}};  // unbiased
  for (int use = 0; use < 4; ++use)
    for (int channel = 0; channel < 2; ++channel) {
      mean[channel] = 0.9 * mean[channel] + 0.1 * means[use % 2][channel];
      variance[channel] = 0.9 * variance[channel] + 0.1 * variances[use % 2][channel];
    }
  expect_near(session.state("bn.running_mean").to_doubles(), {mean[0], mean[1]});
  expect_near(session.state("bn.running_var").to_doubles(), {variance[0], variance[1]});
}

TEST(Layers, BatchNorm1dRefusesOtherChannels) {
  Model model;
  const nn::BatchNorm1d norm(Scope(model) / "bn", 3);
  expect_error(
      [&] {
        run_layer(model, {wave_tensor({2, 4}, 0)}, [&](const auto& v) { return norm(v[0]); });
      },
      {"'bn'", "[N, 3]", "[2,4]"});
}

TEST(Layers, BatchNorm1dWithoutParametersOrStatistics) {
  Model model;
  const nn::BatchNorm1d plain(Scope(model) / "plain", 3, 1e-5, 0.1, false),
      untracked(Scope(model) / "untracked", 3, 1e-5, 0.1, false, false);
  EXPECT_EQ(state_names(model), (Names{"plain.running_mean f32[3]", "plain.running_var f32[3]"}));
  const Tensor x = wave_tensor({6, 3}, 0.2);
  const auto of = [&](const nn::BatchNorm1d& norm, Mode mode) {
    return run_layer(
               model, {x}, [&](const auto& v) { return norm(v[0]); }, mode)
        .y();
  };
  expect_near(of(untracked, Mode::kEval), of(plain, Mode::kTrain));
  const Doubles data = x.to_doubles(), y = of(plain, Mode::kEval);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], data[i] / std::sqrt(1 + 1e-5), 1e-6);
}

TEST(Layers, DropoutKeepsTheMeanInTrainingAndIsTheIdentityOtherwise) {
  Model model;
  const nn::Dropout dropout(Scope(model, 5) / "drop", 0.3);
  const Tensor x = tensor({100, 100}, Doubles(10000, 2.0));
  const Doubles dropped = run_layer(
                              model, {x}, [&](const auto& v) { return dropout(v[0]); }, Mode::kTrain)
                              .y();
  double zeros = 0, sum = 0;
  for (double value : dropped) {
    EXPECT_TRUE(value == 0 || std::abs(value - 2 / 0.7) < 1e-6) << value;
    zeros += value == 0;
    sum += value;
  }
  EXPECT_NEAR(zeros / 10000, 0.3, 0.02);  // four standard deviations
  EXPECT_NEAR(sum / 10000, 2.0, 0.06);
  EXPECT_EQ(run_layer(model, {x}, [&](const auto& v) { return dropout(v[0]); }).y(), x.to_doubles());
  const nn::Dropout all(Scope(model) / "all", 1.0), none(Scope(model) / "none", 0.0);
  EXPECT_EQ(run_layer(
                model, {x}, [&](const auto& v) { return all(v[0]); }, Mode::kTrain)
                .y(),
            Doubles(10000, 0.0));
  EXPECT_EQ(run_layer(
                model, {x}, [&](const auto& v) { return none(v[0]); }, Mode::kTrain)
                .y(),
            x.to_doubles());
  for (double p : {-0.1, 1.5, std::nan("")})
    expect_error([&] { nn::Dropout(Scope(model) / "bad", p); }, {"bad", "between 0 and 1"});
}

TEST(Layers, TwoDropoutsOfOneGraphDropOtherElements) {
  Model model;
  const nn::Dropout a(Scope(model) / "a"), b(Scope(model) / "b");
  const Tensor x = tensor({256}, Doubles(256, 1.0));
  const LayerRun run = run_outputs(
      model, {x},
      [&](const auto& v) -> std::vector<std::pair<std::string, Value>> {
        return {{"a", a(v[0])}, {"b", b(v[0])}, {"again", a(v[0])}};
      },
      Mode::kTrain);
  EXPECT_NE(run.y("a"), run.y("b"));
  EXPECT_NE(run.y("a"), run.y("again"));
  EXPECT_EQ(model.states().size(), 1u);  // one random state for all
}

TEST(Layers, Activations) {
  Model model;
  const Tensor x = wave_tensor({3, 5}, 0.4);
  const auto expect = [&](const nn::Layer& layer, double (*f)(double)) {
    Doubles expected;
    for (double value : x.to_doubles()) expected.push_back(f(value));
    expect_near(run_layer(model, {x}, [&](const auto& v) { return layer(v[0]); }).y(), expected);
  };
  expect(nn::ReLU(), [](double v) { return v > 0 ? v : 0; });
  expect(nn::GELU(), [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  expect(nn::GELU{GeluKind::kTanh}, [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  });
  expect(nn::SiLU(), [](double v) { return v / (1 + std::exp(-v)); });
  expect(nn::Tanh(), [](double v) { return std::tanh(v); });
  expect(nn::Sigmoid(), [](double v) { return 1 / (1 + std::exp(-v)); });
}

TEST(Layers, SoftmaxOverAnyAxis) {
  Model model;
  const Tensor x = wave_tensor({3, 5}, 0.4);
  const Doubles data = x.to_doubles();
  Doubles rows(15), columns(15);
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 5; ++c) {
      double row = 0, column = 0;
      for (size_t k = 0; k < 5; ++k) row += std::exp(data[r * 5 + k]);
      for (size_t k = 0; k < 3; ++k) column += std::exp(data[k * 5 + c]);
      rows[r * 5 + c] = std::exp(data[r * 5 + c]) / row;
      columns[r * 5 + c] = std::exp(data[r * 5 + c]) / column;
    }
  expect_near(run_layer(model, {x}, [&](const auto& v) { return nn::Softmax()(v[0]); }).y(), rows);
  expect_near(run_layer(model, {x}, [&](const auto& v) { return nn::Softmax{0}(v[0]); }).y(), columns);
}

TEST(Layers, FlattenKeepsTheBatchAxis) {
  Model model;
  const Tensor x = wave_tensor({2, 3, 4}, 0.4);
  const LayerRun run = run_layer(model, {x}, [&](const auto& v) { return nn::Flatten()(v[0]); });
  EXPECT_EQ(run.outputs.at("y").type().shape.to_string(), "[2,12]");
  EXPECT_EQ(run.y(), x.to_doubles());
  const LayerRun all = run_layer(model, {x}, [&](const auto& v) { return nn::Flatten{0, 1}(v[0]); });
  EXPECT_EQ(all.outputs.at("y").type().shape.to_string(), "[6,4]");
}

TEST(Layers, ContainersCallTheirLayersInOrder) {
  Model model;
  const Scope s(model);
  nn::Sequential net({nn::Linear(s / 0, 4, 4), nn::ReLU()});
  net.append(nn::Residual(nn::Linear(s / 2, 4, 4)));
  const nn::ModuleList<nn::RMSNorm> norms(s / "norms", 2,
                                          [](const Scope& scope) { return nn::RMSNorm(scope, 4); });
  EXPECT_EQ(norms.size(), 2u);
  EXPECT_EQ(state_names(model), (Names{"0.weight f32[4,4]", "0.bias f32[4]", "2.weight f32[4,4]",
                                       "2.bias f32[4]", "norms.0.weight f32[4]", "norms.1.weight f32[4]"}));
  scramble(model);
  const Tensor x = wave_tensor({2, 4}, 0.1);
  const LayerRun run = run_layer(model, {x}, [&](const auto& v) {
    Value y = net(v[0]);
    for (const nn::RMSNorm& norm : norms) y = norm(y);
    return y;
  });
  Doubles h = linear_reference(x.to_doubles(), state_of(model, "0.weight"), state_of(model, "0.bias"), 4);
  for (double& value : h) value = std::max(value, 0.0);
  const Doubles r = linear_reference(h, state_of(model, "2.weight"), state_of(model, "2.bias"), 4);
  for (size_t i = 0; i < h.size(); ++i) h[i] += r[i];
  for (const char* name : {"norms.0.weight", "norms.1.weight"})
    h = affine(norm_reference(h, 4, 1e-6, false), state_of(model, name), {});
  expect_near(run.y(), h, 1e-5);
}

}  // namespace
}  // namespace genesis
