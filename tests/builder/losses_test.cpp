// Tests the loss layers against plain formulas in double, with every reduction.
#include "builder/margin_losses.h"
#include "builder/stochastic_depth.h"
#include "tests/builder/layer_run.h"

namespace genesis {
namespace {

using namespace testing;

constexpr Reduction kReductions[] = {Reduction::kMean, Reduction::kSum, Reduction::kNone};

// `divisor`: the divisor of the mean.
Doubles reduce(const Doubles& losses, Reduction reduction, double divisor) {
  if (reduction == Reduction::kNone) return losses;
  double sum = 0;
  for (double loss : losses) sum += loss;
  return {reduction == Reduction::kSum ? sum : sum / divisor};
}

template <class Loss>
void expect_loss(Loss loss, const std::vector<Tensor>& inputs, const Doubles& losses, double divisor = 0) {
  Model model;
  for (Reduction reduction : kReductions) {
    loss.reduction = reduction;
    expect_near(run_layer(model, inputs, [&](const auto& x) { return loss(x[0], x[1]); }).y(),
                reduce(losses, reduction, divisor ? divisor : static_cast<double>(losses.size())));
  }
}

Doubles pointwise(const Tensor& x, const Tensor& y, const std::function<double(double, double)>& f) {
  const Doubles a = x.to_doubles(), b = y.to_doubles();
  Doubles losses;
  for (size_t i = 0; i < a.size(); ++i) losses.push_back(f(a[i], b[i]));
  return losses;
}

Tensor positive(const std::vector<int64_t>& sizes, double phase) {
  Doubles values = wave_tensor(sizes, phase).to_doubles();
  for (double& value : values) value = 0.5 + 0.45 * value;
  return tensor(sizes, values);
}

TEST(Losses, PointwiseLosses) {
  const Tensor x = tensor({2, 4}, {2, -1, 0.3, 0.1, -3, 0, 1, 0.5}), y = wave_tensor({2, 4}, 0.5);
  expect_loss(nn::MSELoss(), {x, y}, pointwise(x, y, [](double a, double b) { return (a - b) * (a - b); }));
  expect_loss(nn::L1Loss(), {x, y}, pointwise(x, y, [](double a, double b) { return std::abs(a - b); }));
  expect_loss(nn::SmoothL1Loss{.beta = 0.5}, {x, y}, pointwise(x, y, [](double a, double b) {
                const double d = std::abs(a - b);
                return d < 0.5 ? d * d : d - 0.25;
              }));
  expect_loss(nn::HuberLoss{.delta = 0.5}, {x, y}, pointwise(x, y, [](double a, double b) {
                const double d = std::abs(a - b);
                return d < 0.5 ? 0.5 * d * d : 0.5 * (d - 0.25);
              }));
}

TEST(Losses, BinaryCrossEntropy) {
  const Tensor p = positive({2, 3}, 0.1), x = wave_tensor({2, 3}, 0.1), y = positive({2, 3}, 1.5);
  expect_loss(nn::BCELoss(), {p, y}, pointwise(p, y, [](double a, double b) {
                return -b * std::log(a) - (1 - b) * std::log(1 - a);
              }));
  expect_loss(nn::BCEWithLogitsLoss(), {x, y}, pointwise(x, y, [](double a, double b) {
                const double s = 1 / (1 + std::exp(-a));
                return -b * std::log(s) - (1 - b) * std::log(1 - s);
              }));
}

// `weight` scales each element's loss and pos_weight its positive part. The mean still divides by the number of
// elements.
TEST(Losses, BinaryCrossEntropyWithWeights) {
  Model model;
  const Tensor x = wave_tensor({2, 3}, 0.1), y = positive({2, 3}, 1.5), weight = positive({3}, 2.0),
               pos = positive({3}, 3.0);
  const Doubles a = x.to_doubles(), b = y.to_doubles(), w = weight.to_doubles(), c = pos.to_doubles();
  double expected = 0;
  for (size_t i = 0; i < 6; ++i) {
    const double s = 1 / (1 + std::exp(-a[i]));
    expected += w[i % 3] * (-c[i % 3] * b[i] * std::log(s) - (1 - b[i]) * std::log(1 - s)) / 6;
  }
  expect_near(run_layer(model, {x, y, weight, pos},
                        [](const auto& v) {
                          return nn::BCEWithLogitsLoss{.weight = v[2], .pos_weight = v[3]}(v[0], v[1]);
                        })
                  .y(),
              {expected});
}

TEST(Losses, KlDivergence) {
  const Tensor p = positive({2, 3}, 0.1), y = positive({2, 3}, 1.5);
  Doubles logs = p.to_doubles(), targets = y.to_doubles();
  for (double& value : logs) value = std::log(value);
  for (double& value : targets) value = std::log(value);
  const Tensor input = tensor({2, 3}, logs), log_target = tensor({2, 3}, targets);
  const Doubles losses = pointwise(input, y, [](double a, double b) { return b * (std::log(b) - a); });
  expect_loss(nn::KLDivLoss(), {input, y}, losses);
  expect_loss(nn::KLDivLoss{.log_target = true}, {input, log_target}, losses);
}

Doubles log_softmax_of(const Doubles& x, size_t classes) {
  Doubles y(x.size());
  for (size_t row = 0; row < x.size(); row += classes) {
    double sum = 0;
    for (size_t k = 0; k < classes; ++k) sum += std::exp(x[row + k]);
    for (size_t k = 0; k < classes; ++k) y[row + k] = x[row + k] - std::log(sum);
  }
  return y;
}

TEST(Losses, CrossEntropyAndNegativeLogLikelihood) {
  const Tensor logits = wave_tensor({4, 3}, 0.3), target = Tensor::of<int64_t>({4}, {2, 0, -100, 1});
  const Doubles logs = log_softmax_of(logits.to_doubles(), 3);
  const Doubles losses = {-logs[2], -logs[3], 0, -logs[10]};
  expect_loss(nn::CrossEntropyLoss(), {logits, target}, losses, 3);
  expect_loss(nn::NLLLoss(), {tensor({4, 3}, logs), target}, losses, 3);
  expect_loss(nn::CrossEntropyLoss{.ignore_index = 0}, {logits, Tensor::of<int64_t>({4}, {2, 0, 1, 0})},
              {-logs[2], 0, -logs[7], 0}, 2);
}

TEST(Losses, CrossEntropySmoothsLabels) {
  const Tensor logits = wave_tensor({2, 3}, 0.3), target = Tensor::of<int64_t>({2}, {2, 0});
  const Doubles logs = log_softmax_of(logits.to_doubles(), 3);
  Doubles losses;
  for (size_t row = 0; row < 2; ++row) {
    const double all = logs[3 * row] + logs[3 * row + 1] + logs[3 * row + 2];
    losses.push_back(-0.8 * logs[3 * row + (row ? 0 : 2)] - 0.2 / 3 * all);
  }
  expect_loss(nn::CrossEntropyLoss{.label_smoothing = 0.2}, {logits, target}, losses);
}

// With class weights the mean divides by the sum of the weights of the targets.
TEST(Losses, CrossEntropyWithClassWeights) {
  Model model;
  const Tensor logits = wave_tensor({3, 3}, 0.3), target = Tensor::of<int64_t>({3}, {2, 0, 0}),
               weight = tensor({3}, {1, 5, 0.5});
  const Doubles logs = log_softmax_of(logits.to_doubles(), 3);
  const double expected = -(0.5 * logs[2] + logs[3] + logs[6]) / 2.5;
  expect_near(run_layer(model, {logits, target, weight},
                        [](const auto& v) { return nn::CrossEntropyLoss{.weight = v[2]}(v[0], v[1]); })
                  .y(),
              {expected});
  expect_near(run_layer(model, {tensor({3, 3}, logs), target, weight},
                        [](const auto& v) { return nn::NLLLoss{.weight = v[2]}(v[0], v[1]); })
                  .y(),
              {expected});
}

// The numbers are those of torch.nn.functional (PyTorch 2.15).
TEST(Losses, MarginsAndDistributions) {
  const Tensor x = tensor({2, 3}, {0.5, -1, 0.25, 2, 0.75, -0.5}),
               y = tensor({2, 3}, {1, 0.5, -0.25, -1, 0.25, 1}),
               z = tensor({2, 3}, {-0.5, 1, 1, 0, 0.5, 0.75}), s = tensor({2, 3}, {1, -1, 1, -1, 1, -1}),
               v = tensor({2, 3}, {0.5, 1, 2, 1.5, 0.25, 1}), r = tensor({2}, {1, -1}),
               w = tensor({3}, {0.5, 1, 2}), t = Tensor::of<int64_t>({2}, {2, 0});
  constexpr auto kNone = Reduction::kNone, kMean = Reduction::kMean;
  const std::pair<std::function<Value(const std::vector<Value>&)>, Doubles> cases[] = {
      {[](const auto& i) { return pairwise_distance(i[0], i[1], 1); }, {2.499999, 5.000001}},
      {[](const auto& i) { return pairwise_distance(i[0], i[1]); }, {1.6583115, 3.3911655}},
      {[](const auto& i) { return pairwise_distance(i[0], i[1], 3); }, {1.5361575, 3.1244006}},
      {[](const auto& i) { return pairwise_distance(i[0], i[1], INFINITY); }, {1.499999, 3.000001}},
      {[](const auto& i) { return margin_ranking_loss(i[0], i[1], i[3], 0.5, kNone); }, {1, 0, 0, 3.5, 0, 0}},
      {[](const auto& i) { return hinge_embedding_loss(i[0], i[3], 0.75, kNone); },
       {0.5, 1.75, 0.25, 0, 0.75, 1.25}},
      {[](const auto& i) { return soft_margin_loss(i[0], i[3]); }, {0.7251924}},
      {[](const auto& i) { return cosine_embedding_loss(i[0], i[1], i[5], -0.2, kNone); }, {1.0476191, 0}},
      {[](const auto& i) { return triplet_margin_loss(i[0], i[1], i[2], 1.5, 2, 1e-6, false, kNone); },
       {0.7998168, 2.5194571}},
      {[](const auto& i) { return triplet_margin_loss(i[0], i[1], i[2], 1.5, 2, 1e-6, true); }, {2.4866269}},
      {[](const auto& i) { return multilabel_soft_margin_loss(i[0], relu(i[3]), i[6], kNone); },
       {0.567393, 0.7994964}},
      {[](const auto& i) { return multi_margin_loss(i[0], i[7], 1, 1, i[6]); }, {0.4166667}},
      {[](const auto& i) { return multi_margin_loss(i[0], i[7], 2, 1.5, {}, kNone); },
       {1.0416666, 0.0208333}},
      {[](const auto& i) { return poisson_nll_loss(i[0], i[4] * 2, true, true); }, {2.4605284}},
      {[](const auto& i) { return poisson_nll_loss(i[4], i[4] * 2, false); }, {0.6078851}},
      {[](const auto& i) { return gaussian_nll_loss(i[0], i[1], i[4], true, 1e-6, kMean); }, {1.8476194}}};
  Model model;
  for (const auto& [loss, expected] : cases)
    expect_near(run_layer(model, {x, y, z, s, v, r, w, t}, loss).y(), expected);
}

// Rows are kept whole, at 1 / (1 - p) times their numbers, or become 0.
TEST(Losses, StochasticDepthLeavesOutRows) {
  Model model;
  const nn::StochasticDepth depth(Scope(model, 1) / "depth", 0.5);
  const Tensor ones = tensor({64, 2}, Doubles(128, 1));
  const auto build = [&](const auto& x) { return depth(x[0]); };
  EXPECT_EQ(run_layer(model, {ones}, build).y(), Doubles(128, 1));
  const Doubles y = run_layer(model, {ones}, build, Mode::kTrain).y();
  double total = 0;
  for (size_t row = 0; row < 64; ++row) {
    EXPECT_TRUE(y[2 * row] == y[2 * row + 1] && (y[2 * row] == 0 || y[2 * row] == 2));
    total += y[2 * row];
  }
  EXPECT_NEAR(total, 64, 32);
}

}  // namespace
}  // namespace genesis
