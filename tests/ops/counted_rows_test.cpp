// Tests linear_cross_entropy with ignored rows against its definition in double precision, for any share of rows that
// count. The values of ignored rows must not affect anything.
#include <cmath>

#include "passes/training/autodiff.h"
#include "schema/core/philox.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/loss.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr int64_t kHidden = 16, kClasses = 30, kIgnored = -100;

struct LossCase {
  int64_t rows = 0;
  double share = 1;  // share of rows that count; 0: none; negative: one row
  DType dtype = DType::f32, target_dtype = DType::i64;
  CrossEntropyOptions options = {};
  double divisor = 0;  // 0: none
  bool gradients = true, frozen = false;
  int threads = 0;
  float ignored_x = 0.25f;  // value of ignored rows
};

bool counts(const LossCase& c, int64_t row) {
  if (c.share < 0) return row == c.rows / 2;
  std::vector<float> draw(1);
  fill_uniform(draw, 7, static_cast<uint64_t>(row), 0, 1);
  return draw[0] < c.share;
}

std::vector<double> targets(const LossCase& c) {
  std::vector<double> values(static_cast<size_t>(c.rows));
  for (int64_t row = 0; row < c.rows; ++row)
    values[static_cast<size_t>(row)] = static_cast<double>(counts(c, row) ? row * 7 % kClasses : kIgnored);
  return values;
}

// Returns multiples of 1/16, which every dtype holds exactly.
std::vector<float> sixteenths(int64_t count, uint64_t stream, float bound) {
  std::vector<float> values(static_cast<size_t>(count));
  fill_uniform(values, 11, stream, -bound, bound);
  for (float& value : values) value = std::round(16 * value) / 16;
  return values;
}

std::vector<float> features(const LossCase& c) {
  std::vector<float> x = sixteenths(c.rows * kHidden, 1, 2);
  for (int64_t i = 0; i < c.rows * kHidden; ++i)
    if (!counts(c, i / kHidden)) x[static_cast<size_t>(i)] = c.ignored_x;
  return x;
}

std::vector<float> weights() { return sixteenths(kClasses * kHidden, 2, 1); }

Value loss_of(const LossCase& c, Value x, Value w, Value t, Value divisor) {
  const ops::LinearCrossEntropy op{c.options};
  std::vector<Value> inputs = {x, w, cast(t, c.target_dtype)};
  if (c.divisor > 0) inputs.push_back(divisor);
  return emit_node(*find_op("linear_cross_entropy"), to_attributes(op), inputs)[0];
}

NamedTensors run_case(const LossCase& c) {
  std::vector<int64_t> t;
  for (const double value : targets(c)) t.push_back(static_cast<int64_t>(value));
  return run_graph({{"x", Tensor::of<float>({c.rows, kHidden}, features(c))},
                    {"w", Tensor::of<float>({kClasses, kHidden}, weights())},
                    {"t", Tensor::of<int64_t>({c.rows}, t)},
                    {"d", Tensor::scalar<double>(c.divisor)}},
                   [&](const Inputs& in) {
                     const Value x = cast(in[0], c.dtype), w = cast(in[1], c.dtype);
                     const Value loss = loss_of(c, x, w, in[2], in[3]);
                     std::vector<std::pair<std::string, Value>> outputs{{"loss", loss}};
                     if (!c.gradients) return outputs;
                     std::vector<Value> wrt = {x};
                     if (!c.frozen) wrt.push_back(w);
                     const auto gradients = passes::gradients(in.graph, loss, wrt);
                     outputs.emplace_back("dx", gradients[0]);
                     if (!c.frozen) outputs.emplace_back("dw", gradients[1]);
                     return outputs;
                   },
                   {.threads = c.threads, .optimize = false});
}

// Results of the definition, row by row.
struct Expected {
  double loss = 0, denominator = 0;
  std::vector<double> dx, dw;
};

void add_row(Expected& e, const LossCase& c, const float* x, const std::vector<float>& w, int64_t target,
             double* dx) {
  std::vector<double> logits(kClasses);
  double sum = 0;
  for (int64_t k = 0; k < kClasses * kHidden; ++k)
    logits[static_cast<size_t>(k / kHidden)] += double{x[k % kHidden]} * double{w[static_cast<size_t>(k)]};
  for (const double logit : logits) sum += std::exp(logit);
  const double smooth = c.options.label_smoothing;
  for (int64_t at = 0; at < kClasses; ++at) {
    const double share = smooth / static_cast<double>(kClasses) + (at == target ? 1 - smooth : 0),
                 logit = logits[static_cast<size_t>(at)], gradient = std::exp(logit) / sum - share;
    e.loss += share * (std::log(sum) - logit);
    for (int64_t k = 0; k < kHidden; ++k) {
      const auto place = static_cast<size_t>(at * kHidden + k);
      dx[k] += gradient * double{w[place]};
      e.dw[place] += gradient * double{x[k]};
    }
  }
  e.denominator += 1;
}

Expected definition(const LossCase& c) {
  const std::vector<float> x = features(c), w = weights();
  const std::vector<double> t = targets(c);
  Expected e;
  e.dx.resize(x.size());
  e.dw.resize(w.size());
  for (int64_t row = 0; row < c.rows; ++row)
    if (counts(c, row))
      add_row(e, c, x.data() + row * kHidden, w, static_cast<int64_t>(t[static_cast<size_t>(row)]),
              e.dx.data() + row * kHidden);
  if (c.options.reduction == Reduction::kSum) return e;
  const double by = c.divisor > 0 ? c.divisor : e.denominator;
  e.loss /= by;
  if (e.denominator == 0) return e;  // without a divisor the loss is NaN, and gradients are zeros
  for (std::vector<double>* gradient : {&e.dx, &e.dw})
    for (double& value : *gradient) value /= by;
  return e;
}

// Is relative to the largest value, since gradients over logits are rounded to the dtype.
double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 5e-6 : dtype == DType::f16 ? 2e-3 : 0.01;
}

void expect_near(const Tensor& got_tensor, const std::vector<double>& expected, double relative,
                 const char* name) {
  const std::vector<double> got = got_tensor.to_doubles();
  ASSERT_EQ(got.size(), expected.size()) << name;
  double largest = 0, worst = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), std::isnan(expected[i])) << name << " " << i;
    if (!std::isnan(got[i])) worst = std::max(worst, std::abs(got[i] - expected[i]));
  }
  EXPECT_LE(worst, relative * largest) << name;
}

void check_case(const LossCase& c) {
  SCOPED_TRACE(std::to_string(c.rows) + " rows, share " + std::to_string(c.share) + ", " +
               std::string(name_of(c.dtype)) + ", smoothing " + std::to_string(c.options.label_smoothing));
  const Expected e = definition(c);
  const NamedTensors got = run_case(c);
  expect_near(got.at("loss"), {e.loss}, c.dtype == DType::f64 ? 1e-12 : 5e-6, "loss");
  if (c.gradients) expect_near(got.at("dx"), e.dx, tolerance(c.dtype), "dx");
  if (c.gradients && !c.frozen) expect_near(got.at("dw"), e.dw, tolerance(c.dtype), "dw");
}

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
constexpr double kOne = -1;

TEST(CountedRows, EveryShareLikeTheDefinition) {
  for (const DType dtype : kDTypes)
    for (const int64_t rows : {1, 63, 513, 1500, 2100})
      for (const double share : {0.0, kOne, 0.1, 0.6, 1.0})
        check_case({.rows = rows, .share = share, .dtype = dtype});
}

TEST(CountedRows, SumsSmoothingDivisorsAndFrozenWeights) {
  for (const DType dtype : kDTypes)
    for (const double share : {0.0, kOne, 0.6}) {
      const LossCase c{.rows = 513, .share = share, .dtype = dtype, .target_dtype = DType::i32};
      for (const double smoothing : {0.0, 0.1}) {
        LossCase sum = c, divided = c, frozen = c;
        sum.options = {.label_smoothing = smoothing, .reduction = Reduction::kSum};
        divided.options.label_smoothing = frozen.options.label_smoothing = smoothing;
        divided.divisor = 700;
        frozen.frozen = true;
        for (const LossCase& variant : {sum, divided, frozen}) check_case(variant);
      }
    }
}

TEST(CountedRows, LossesWithoutGradients) {
  for (const DType dtype : kDTypes)
    for (const int64_t rows : {63, 1500})
      for (const double share : {0.0, kOne, 0.6, 1.0})
        check_case({.rows = rows, .share = share, .dtype = dtype, .gradients = false});
}

TEST(CountedRows, OthersReachNothing) {
  for (const DType dtype : kDTypes)
    for (const double share : {0.0, kOne, 0.1, 0.6})
      for (const bool gradients : {false, true}) {
        LossCase c{.rows = 1500, .share = share, .dtype = dtype, .gradients = gradients};
        c.options.reduction = Reduction::kSum;
        const NamedTensors clean = run_case(c);
        c.ignored_x = NAN;
        for (const auto& [name, tensor] : run_case(c))
          EXPECT_EQ(tensor.to_doubles(), clean.at(name).to_doubles())
              << name << " " << name_of(dtype) << " " << share;
      }
}

TEST(CountedRows, TheSameBitsForEveryNumberOfThreads) {
  for (const DType dtype : kDTypes) {
    LossCase c{.rows = 2100, .share = 0.6, .dtype = dtype, .threads = 1};
    const NamedTensors one = run_case(c);
    for (const int threads : {2, 4}) {
      c.threads = threads;
      for (const auto& [name, tensor] : run_case(c))
        EXPECT_EQ(tensor.to_doubles(), one.at(name).to_doubles())
            << name << " " << name_of(dtype) << " " << threads;
    }
  }
}

TEST(CountedRows, ATargetOutOfRangeIsReported) {
  for (const int64_t bad : {int64_t{-1}, int64_t{2}})
    expect_error(
        [&] {
          run_graph({{"x", Tensor::of<float>({3, 1}, {1, 2, 3})},
                     {"w", Tensor::of<float>({2, 1}, {1, 2})},
                     {"t", Tensor::of<int64_t>({3}, {kIgnored, bad, 1})}},
                    [](const Inputs& in) {
                      return std::vector<std::pair<std::string, Value>>{
                          {"loss", linear_cross_entropy(in[0], in[1], in[2])}};
                    });
        },
        {"linear_cross_entropy", std::to_string(bad)});
}

}  // namespace
}  // namespace genesis::testing
