// Tests cross-entropy in all its variants, and the pointwise losses, against plain loops.
#include "schema/ops/nn/loss.h"

#include <cmath>

#include "passes/training/autodiff.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

double log_softmax_at(const Ref& x, int64_t row, int64_t at) {
  const int64_t n = x.dim(-1);
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, x[row * n + i]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[row * n + i] - max);
  return x[row * n + at] - max - std::log(sum);
}

Ref reduce(const Ref& rows, Reduction reduction, double denominator) {
  if (reduction == Reduction::kNone) return rows;
  Ref result = ref_zeros({});
  for (double v : rows.data) result[0] += v;
  if (reduction == Reduction::kMean) result[0] /= denominator;
  return result;
}

// Follows PyTorch's formula: (1 - s) w[t] (-log p[t]) + s / C sum_c w[c] (-log p[c]). The mean divides by the sum of
// w[t].
Ref class_reference(const Ref& x, const Ref& target, const Ref* weight, const CrossEntropyOptions& o) {
  const int64_t n = x.dim(-1);
  Ref rows = ref_zeros(target.shape);
  double denominator = 0;
  for (int64_t row = 0; row < rows.numel(); ++row) {
    const auto t = static_cast<int64_t>(target[row]);
    if (t == o.ignore_index) continue;
    const auto w = [&](int64_t c) { return weight ? (*weight)[c] : 1.0; };
    rows[row] = -(1 - o.label_smoothing) * w(t) * log_softmax_at(x, row, t);
    for (int64_t c = 0; c < n; ++c)
      rows[row] -= o.label_smoothing / static_cast<double>(n) * w(c) * log_softmax_at(x, row, c);
    denominator += w(t);
  }
  return reduce(rows, o.reduction, denominator);
}

Ref probability_reference(const Ref& x, const Ref& target, const Ref* weight, const CrossEntropyOptions& o) {
  const int64_t n = x.dim(-1);
  Ref rows = ref_zeros(std::vector<int64_t>(x.shape.begin(), x.shape.end() - 1));
  for (int64_t row = 0; row < rows.numel(); ++row)
    for (int64_t c = 0; c < n; ++c) {
      const double share =
          target[row * n + c] * (1 - o.label_smoothing) + o.label_smoothing / static_cast<double>(n);
      rows[row] -= share * (weight ? (*weight)[c] : 1.0) * log_softmax_at(x, row, c);
    }
  return reduce(rows, o.reduction, static_cast<double>(rows.numel()));
}

std::string suffix(const CrossEntropyOptions& o, bool weight) {
  return std::string(EnumNames<Reduction>::names[static_cast<size_t>(o.reduction)]) +
         (o.label_smoothing > 0 ? "_smooth" : "") + (weight ? "_weight" : "");
}

// Covers every reduction, with and without smoothing and weights.
template <class Check>
void each_variant(int64_t ignore_index, const Check& check_variant) {
  for (Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum})
    for (double smoothing : {0.0, 0.2})
      for (bool weighted : {false, true}) check_variant({ignore_index, smoothing, reduction}, weighted);
}

void check_class_targets(const std::string& name, std::vector<int64_t> shape, CaseInput target,
                         int64_t ignore_index) {
  each_variant(ignore_index, [&](const CrossEntropyOptions& o, bool weighted) {
    OpCase op_case{.name = name + "_" + suffix(o, weighted), .inputs = {real(shape, -3, 3), target}};
    if (weighted) op_case.inputs.push_back(constant_real({shape.back()}, 0.5, 2));
    op_case.build = [=](const Inputs& x) {
      return Outputs{cross_entropy(x[0], x[1], o, weighted ? x[2] : Value{})};
    };
    op_case.reference = [=](const Refs& x) {
      return Refs{class_reference(x[0], x[1], weighted ? &x[2] : nullptr, o)};
    };
    check(op_case);
  });
}

TEST(CrossEntropy, ClassTargets) {
  check_class_targets("ce_classes", {4, 5}, integer_data({4}, {0, 4, 2, 2}), -100);
  check_class_targets("ce_i32", {2, 3, 19}, integer_data({2, 3}, {0, 18, 2, 2, 7, 16}, DType::i32), -100);
}

TEST(CrossEntropy, IgnoredTargets) {
  check_class_targets("ce_ignore_100", {4, 5}, integer_data({4}, {0, -100, 2, -100}), -100);
  check_class_targets("ce_ignore_class", {4, 5}, integer_data({4}, {3, 1, 3, 4}), 3);
  check_class_targets("ce_ignore_beyond", {4, 5}, integer_data({4}, {3, 77, 3, 4}), 77);
}

TEST(CrossEntropy, ProbabilityTargets) {
  each_variant(-100, [](const CrossEntropyOptions& o, bool weighted) {
    OpCase op_case{.name = "ce_probabilities_" + suffix(o, weighted),
                   .inputs = {real({3, 18}, -3, 3), real({3, 18}, 0, 0.2)}};
    if (weighted) op_case.inputs.push_back(constant_real({18}, 0.5, 2));
    op_case.build = [=](const Inputs& x) {
      return Outputs{cross_entropy(x[0], x[1], o, weighted ? x[2] : Value{})};
    };
    op_case.reference = [=](const Refs& x) {
      return Refs{probability_reference(x[0], x[1], weighted ? &x[2] : nullptr, o)};
    };
    check(op_case);
  });
}

// Returns what the classes [first, first + C) of `all` add to the loss of a row that uses the log-sum-exp of these
// classes; and that log-sum-exp.
Refs part_reference(const Ref& x, const Ref& target, const ops::IndexRange& range, double smoothing,
                    int64_t ignored) {
  const int64_t n = x.dim(-1);
  Ref loss = ref_zeros(target.shape), lse = ref_zeros(target.shape);
  for (int64_t row = 0; row < loss.numel(); ++row) {
    if (static_cast<int64_t>(target[row]) == ignored) continue;
    lse[row] = x[row * n] - log_softmax_at(x, row, 0);
    for (int64_t c = 0; c < n; ++c) {
      const bool is_target = static_cast<int64_t>(target[row]) == range.first_index + c;
      const double share =
          smoothing / static_cast<double>(range.all_indices) + (is_target ? 1 - smoothing : 0);
      loss[row] += share * (lse[row] - x[row * n + c]);
    }
  }
  return {loss, lse};
}

// Computes the gradient from the log-sum-exp of all classes: share of all * exp(x - lse) - share, times dy.
Ref part_gradient(const Refs& in, const ops::IndexRange& range, double smoothing, int64_t ignored) {
  const Ref &x = in[0], &target = in[1], &lse = in[2], &dy = in[3];
  const int64_t n = x.dim(-1);
  Ref dx = ref_zeros(x.shape);
  for (int64_t i = 0; i < dx.numel(); ++i) {
    const int64_t row = i / n, at = static_cast<int64_t>(target[row]);
    if (at == ignored) continue;
    const double share = smoothing / static_cast<double>(range.all_indices) +
                         (at == range.first_index + i % n ? 1 - smoothing : 0);
    dx[i] = (std::exp(x[i] - lse[row]) - share) * dy[row];
  }
  return dx;
}

// Covers rows of a few logits, of as many as the registers of a warp hold, and of more.
TEST(CrossEntropy, PartsOfTheClasses) {
  for (const int64_t count : {5, 48, 1500})
    for (const int64_t first : {int64_t{0}, count, 2 * count})
      for (const double smoothing : {0.0, 0.2}) {
        const ops::IndexRange range{first, 3 * count};
        const CaseInput target =
            integer_data({6}, {0, -100, static_cast<double>(count), static_cast<double>(2 * count - 1),
                               static_cast<double>(3 * count - 1), static_cast<double>(count - 1)});
        check({.name = "ce_part",
               .inputs = {real({6, count}, -3, 3), target},
               .build =
                   [=](const Inputs& x) {
                     const ops::CrossEntropy op{-100, smoothing, Reduction::kNone, true, range};
                     return emit_node(*find_op("cross_entropy"), to_attributes(op), {x[0], x[1]});
                   },
               .reference = [=](const Refs& x) { return part_reference(x[0], x[1], range, smoothing, -100); },
               .gradient = false,
               .tolerance = 1e-5});
        check({.name = "ce_grad_part",
               .inputs = {real({6, count}, -3, 3), target, constant_real({6}, 7, 8), constant_real({6})},
               .build =
                   [=](const Inputs& x) {
                     const ops::CrossEntropyGrad op{-100, smoothing, Reduction::kNone, range};
                     const DType wide = x[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
                     return emit_node(*find_op("cross_entropy_grad"), to_attributes(op),
                                      {x[0], x[1], cast(x[2], wide), cast(x[3], wide)});
                   },
               .reference = [=](const Refs& x) { return Refs{part_gradient(x, range, smoothing, -100)}; },
               .gradient = false});
      }
}

TEST(CrossEntropy, RefusesPartsThatDoNotFit) {
  const std::vector<TensorType> classes = {{DType::f32, {2, 5}}, {DType::i64, {2}}},
                                probabilities = {{DType::f32, {2, 5}}, {DType::f32, {2, 5}}};
  const auto fails = [](const std::vector<TensorType>& types, const ops::CrossEntropy& op,
                        const std::string& part) {
    expect_error(
        [&] {
          infer_case(types, [&](const Inputs& x) {
            return emit_node(*find_op("cross_entropy"), to_attributes(op), {x[0], x[1]});
          });
        },
        {part});
  };
  fails(classes, {-100, 0, Reduction::kNone, true, {6, 10}}, "indices [6, 11) are not among the 10");
  fails(classes, {-100, 0, Reduction::kMean, true, {5, 10}}, "reduction \"none\"");
  fails(classes, {-100, 0, Reduction::kNone, false, {5, 10}}, "with_lse");
  fails(probabilities, {-100, 0, Reduction::kNone, true, {5, 10}}, "class targets");
}

// There are more rows than a GPU has blocks for, so each block processes several rows.
TEST(CrossEntropy, ManyRows) {
  constexpr int64_t kRows = 66001, kClasses = 40;
  std::vector<double> targets(kRows);
  for (size_t i = 0; i < kRows; ++i) targets[i] = i % 7 == 3 ? -100 : static_cast<double>(i * 11 % kClasses);
  check({.name = "ce_many_rows",
         .inputs = {constant_real({kRows, kClasses}, -3, 3), integer_data({kRows}, targets)},
         .build = [](const Inputs& x) { return Outputs{cross_entropy(x[0], x[1])}; },
         .reference = [](const Refs& x) { return Refs{class_reference(x[0], x[1], nullptr, {})}; },
         .gradient = false});
}

double loss_of(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  return run_graph(
             {{"x", logits}, {"t", target}},
             [&](const Inputs& x) {
               return std::vector<std::pair<std::string, Value>>{{"y", cross_entropy(x[0], x[1], options)}};
             })
      .at("y")
      .to_doubles()[0];
}

TEST(CrossEntropy, NothingCounts) {
  const Tensor logits = Tensor::of<float>({2, 2}, {1, 2, 3, 4}),
               ignored = Tensor::of<int64_t>({2}, {-100, -100});
  EXPECT_TRUE(std::isnan(loss_of(logits, ignored, {})));
  EXPECT_EQ(loss_of(logits, ignored, {.reduction = Reduction::kSum}), 0);
  EXPECT_TRUE(std::isnan(loss_of(Tensor::of<float>({0, 2}, {}), Tensor::of<int64_t>({0}, {}), {})));
}

TEST(CrossEntropy, InfiniteLogits) {
  const float inf = INFINITY;
  const Tensor first = Tensor::of<int64_t>({1}, {0});
  EXPECT_NEAR(loss_of(Tensor::of<float>({1, 3}, {1, -inf, 1}), first, {}), std::log(2.0), 1e-6);
  EXPECT_EQ(loss_of(Tensor::of<float>({1, 3}, {-inf, 1, 1}), first, {}), inf);
  EXPECT_TRUE(std::isnan(loss_of(Tensor::of<float>({1, 3}, {inf, 1, 1}), first, {})));
  EXPECT_TRUE(std::isnan(loss_of(Tensor::of<float>({1, 3}, {1, NAN, 1}), first, {})));
  EXPECT_TRUE(std::isnan(loss_of(Tensor::of<float>({1, 2}, {-inf, -inf}), first, {})));
}

// The row is longer than one block of the one-pass sums, with the maximum in a late block.
TEST(CrossEntropy, LongRows) {
  constexpr int64_t n = 10000;
  std::vector<float> x(n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>(i) * 0.01f - 30;
    sum += std::exp(static_cast<double>(x[static_cast<size_t>(i)]) - 70);
  }
  const double loss = loss_of(Tensor::of<float>({1, n}, x), Tensor::of<int64_t>({1}, {n - 1}), {});
  EXPECT_NEAR(loss, 70 + std::log(sum) - x[n - 1], 1e-5);
}

TEST(CrossEntropy, ATargetOutOfRangeNamesTheNode) {
  expect_error(
      [] {
        loss_of(Tensor::of<float>({2, 2}, {1, 2, 3, 4}), Tensor::of<int64_t>({2}, {0, 2}), {});
      },
      {"cross_entropy", "2"});
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  const TensorType logits{DType::f32, {2, 5}}, two{DType::i64, {2}}, five{DType::i64, {5}},
      bytes{DType::u8, {2}};
  const TensorType weight{DType::f32, {2}}, probabilities{DType::f32, {2, 4}};
  const auto fails = [](const std::vector<TensorType>& types, const CrossEntropyOptions& options,
                        std::vector<std::string> parts) {
    expect_error(
        [&] {
          infer_case(types, [&](const Inputs& x) {
            return Outputs{cross_entropy(x[0], x[1], options, x.values.size() > 2 ? x[2] : Value{})};
          });
        },
        parts);
  };
  fails({logits, five}, {}, {"classes last", "[2]", "[5]"});
  fails({logits, bytes}, {}, {"i32 or i64", "u8[2]"});
  fails({logits, two, weight}, {}, {"weight", "[5]", "f32[2]"});
  fails({logits, probabilities}, {}, {"[2,5]", "[2,4]"});
  fails({logits, logits}, {.ignore_index = 3}, {"ignore_index is 3", "probability"});
  fails({logits, two}, {.label_smoothing = 1.5}, {"label_smoothing is 1.5", "0 to 1"});
}

Ref product(const Ref& x, const Ref& weight) {
  std::vector<int64_t> shape = x.shape;
  shape.back() = weight.shape[0];
  Ref y = ref_zeros(shape);
  const int64_t hidden = weight.shape[1], classes = weight.shape[0];
  for (int64_t i = 0; i < y.numel(); ++i)
    for (int64_t k = 0; k < hidden; ++k)
      y[i] += x[i / classes * hidden + k] * weight[i % classes * hidden + k];
  return y;
}

void check_linear(const std::string& name, std::vector<int64_t> shape, int64_t classes, CaseInput target,
                  CrossEntropyOptions o, double tolerance = 4e-6) {
  check({.name = name + "_" + suffix(o, false),
         .inputs = {real(shape), real({classes, shape.back()}), target},
         .build = [=](const Inputs& x) { return Outputs{linear_cross_entropy(x[0], x[1], x[2], o)}; },
         .reference =
             [=](const Refs& x) { return Refs{class_reference(product(x[0], x[1]), x[2], nullptr, o)}; },
         .tolerance = tolerance});
}

TEST(LinearCrossEntropy, LikeTheTwoOps) {
  const CaseInput target = integer_data({2, 3}, {0, 18, -100, 2, 7, 16});
  for (Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum})
    for (double smoothing : {0.0, 0.2})
      check_linear("linear_ce", {2, 3, 5}, 19, target, {.label_smoothing = smoothing, .reduction = reduction},
                   1e-5);
}

// Rows of x are multiples of 16 bytes, as an implementation for GPUs requires.
TEST(LinearCrossEntropy, OfWholePacks) {
  check_linear("linear_ce_packs", {2, 3, 16}, 19, integer_data({2, 3}, {0, 18, -100, 2, 7, 16}), {}, 1e-5);
}

// There are more rows than a block holds, and the last block is not full. Compared with the two ops that it replaces.
TEST(LinearCrossEntropy, SeveralBlocks) {
  constexpr int64_t kRows = 2100, kHidden = 24, kClasses = 30;
  std::vector<float> x(kRows * kHidden), w(kClasses * kHidden);
  std::vector<int64_t> t(kRows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<float>(3 * i));
  for (size_t i = 0; i < t.size(); ++i) t[i] = i % 11 == 0 ? -100 : static_cast<int64_t>(i * 7 % kClasses);
  const auto run = [&](bool fused) {
    return run_graph(
        {{"x", Tensor::of<float>({kRows, kHidden}, x)},
         {"w", Tensor::of<float>({kClasses, kHidden}, w)},
         {"t", Tensor::of<int64_t>({kRows}, t)}},
        [&](const Inputs& in) {
          const Value loss =
              fused ? linear_cross_entropy(in[0], in[1], in[2]) : cross_entropy(linear(in[0], in[1]), in[2]);
          const auto dx = passes::gradients(in.graph, loss, {in[0], in[1]});
          return std::vector<std::pair<std::string, Value>>{{"y", loss}, {"dx", dx[0]}, {"dw", dx[1]}};
        },
        {.optimize = false});
  };
  const NamedTensors fused = run(true), plain = run(false);
  for (const auto& [name, tensor] : plain) {
    const auto expected = tensor.to_doubles(), got = fused.at(name).to_doubles();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6) << name << " " << i;
  }
}

// The divisor may differ from the number of targets. With that number the result is bit-identical to the mean.
TEST(LinearCrossEntropy, DividesByADivisor) {
  const auto divided = [](const Inputs& x) {
    return emit_node(*find_op("linear_cross_entropy"), to_attributes(ops::LinearCrossEntropy{}),
                     {x[0], x[1], x[2], cast(x[3], DType::f64)})[0];
  };
  const CaseInput target = integer_data({2, 3}, {0, 18, -100, 2, 7, 16});
  for (const int divisor : {2, 7})
    check(
        {.name = "linear_ce_over_" + std::to_string(divisor),
         .inputs = {real({2, 3, 5}), real({19, 5}), target, integer_data({}, {static_cast<double>(divisor)})},
         .build = [=](const Inputs& x) { return Outputs{divided(x)}; },
         .reference =
             [=](const Refs& x) {
               Ref loss = class_reference(product(x[0], x[1]), x[2], nullptr, {.reduction = Reduction::kSum});
               loss[0] /= static_cast<double>(divisor);
               return Refs{loss};
             },
         .tolerance = 1e-5});
  const std::vector<float> x = {1, -2, 3, 0.5f, 2, -1}, w = {1, 0, 2, -1, 0.25f, 3};
  const auto run = [&](bool is_divided) {
    return run_graph(
        {{"x", Tensor::of<float>({3, 2}, x)},
         {"w", Tensor::of<float>({3, 2}, w)},
         {"t", Tensor::of<int64_t>({3}, std::vector<int64_t>{2, -100, 1})},
         {"d", Tensor::scalar<int64_t>(2)}},
        [&](const Inputs& in) {
          const Value loss = is_divided ? divided(in) : linear_cross_entropy(in[0], in[1], in[2]);
          const auto dx = passes::gradients(in.graph, loss, {in[0], in[1]});
          return std::vector<std::pair<std::string, Value>>{{"y", loss}, {"dx", dx[0]}, {"dw", dx[1]}};
        });
  };
  const NamedTensors own = run(false), given = run(true);
  for (const auto& [name, tensor] : own) EXPECT_EQ(tensor.to_doubles(), given.at(name).to_doubles()) << name;
}

// A frozen weight has no gradient, and the gradient of x is bit-identical.
TEST(LinearCrossEntropy, FrozenWeightHasNoGradient) {
  constexpr int64_t kRows = 1100, kHidden = 8, kClasses = 40;
  std::vector<float> x(kRows * kHidden), w(kClasses * kHidden);
  std::vector<int64_t> t(kRows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<float>(3 * i));
  for (size_t i = 0; i < t.size(); ++i) t[i] = i % 11 == 0 ? -100 : static_cast<int64_t>(i * 7 % kClasses);
  const auto run = [&](DType dtype, bool frozen) {
    return run_graph(
        {{"x", Tensor::of<float>({kRows, kHidden}, x)},
         {"w", Tensor::of<float>({kClasses, kHidden}, w)},
         {"t", Tensor::of<int64_t>({kRows}, t)}},
        [&](const Inputs& in) {
          const Value low_x = cast(in[0], dtype), low_w = cast(in[1], dtype);
          const Value loss = linear_cross_entropy(low_x, low_w, in[2]);
          std::vector<Value> wrt = {low_x};
          if (!frozen) wrt.push_back(low_w);
          const Value dx = passes::gradients(in.graph, loss, wrt)[0];
          const Graph& graph = in.graph;
          EXPECT_EQ(graph.node(graph.value(loss.id).producer).outputs.size(), frozen ? 2U : 3U);
          return std::vector<std::pair<std::string, Value>>{{"y", loss}, {"dx", cast(dx, DType::f32)}};
        },
        {.optimize = false});
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const NamedTensors frozen = run(dtype, true), whole = run(dtype, false);
    for (const auto& [name, tensor] : whole)
      EXPECT_EQ(frozen.at(name).to_doubles(), tensor.to_doubles()) << name << " " << name_of(dtype);
  }
}

// Gradients are small, with many rows and classes, in 16-bit dtypes. Compared with f32 of the same numbers.
TEST(LinearCrossEntropy, LowPrecisionKeepsSmallGradients) {
  constexpr int64_t kRows = 700, kHidden = 16, kClasses = 2000;
  std::vector<float> x(kRows * kHidden), w(kClasses * kHidden);
  std::vector<int64_t> t(kRows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::round(16 * std::sin(static_cast<float>(i))) / 16;
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::round(16 * std::cos(static_cast<float>(3 * i))) / 64;
  for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<int64_t>(i * 7 % kClasses);
  const auto run = [&](DType dtype) {
    return run_graph({{"x", Tensor::of<float>({kRows, kHidden}, x)},
                      {"w", Tensor::of<float>({kClasses, kHidden}, w)},
                      {"t", Tensor::of<int64_t>({kRows}, t)}},
                     [&](const Inputs& in) {
                       const Value low_x = cast(in[0], dtype), low_w = cast(in[1], dtype);
                       const Value loss = linear_cross_entropy(low_x, low_w, in[2]);
                       // Follows training: the loss is scaled, and the factor is removed in f32.
                       const double scale = dtype == DType::f16 ? 65536 : 1;
                       const auto dx = passes::gradients(in.graph, loss * scale, {low_x, low_w});
                       return std::vector<std::pair<std::string, Value>>{
                           {"y", loss},
                           {"dx", cast(dx[0], DType::f32) * (1 / scale)},
                           {"dw", cast(dx[1], DType::f32) * (1 / scale)}};
                     },
                     {});
  };
  const NamedTensors exact = run(DType::f32);
  for (const auto& [dtype, tolerance] : {std::pair(DType::bf16, 2e-2), std::pair(DType::f16, 3e-3)}) {
    const NamedTensors low = run(dtype);
    for (const auto& [name, tensor] : exact) {
      const auto expected = tensor.to_doubles(), got = low.at(name).to_doubles();
      double error = 0, size = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error += std::pow(got[i] - expected[i], 2);
        size += std::pow(expected[i], 2);
      }
      EXPECT_LT(std::sqrt(error / size), tolerance) << name << " " << name_of(dtype);
    }
  }
}

TEST(LinearCrossEntropy, RefusesWhatDoesNotFit) {
  const TensorType x{DType::f32, {2, 5}}, weight{DType::f32, {7, 4}}, low{DType::bf16, {7, 5}},
      t{DType::i64, {2}};
  const auto build = [](const Inputs& in) { return Outputs{linear_cross_entropy(in[0], in[1], in[2])}; };
  expect_error([&] { infer_case({x, weight, t}, build); }, {"f32[2,5]", "f32[7,4]"});
  expect_error([&] { infer_case({x, low, t}, build); }, {"one floating-point dtype", "bf16"});
  const TensorType fits{DType::f32, {7, 5}}, divisor{DType::f32, {}};
  const auto over = [](const Inputs& in) {
    return Outputs{emit_node(*find_op("linear_cross_entropy"), to_attributes(ops::LinearCrossEntropy{}),
                             {in[0], in[1], in[2], in[3]})[0]};
  };
  expect_error([&] { infer_case({x, fits, t, divisor}, over); }, {"a divisor is f64[]", "f32[]"});
}

TEST(NllLoss, LikeCrossEntropyOfLogProbabilities) {
  for (Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum})
    for (bool weighted : {false, true}) {
      OpCase op_case{.name = "nll_" + suffix({.reduction = reduction}, weighted),
                     .inputs = {real({4, 5}, -3, 0), integer_data({4}, {0, 4, 9, 2})}};
      if (weighted) op_case.inputs.push_back(constant_real({5}, 0.5, 2));
      op_case.build = [=](const Inputs& x) {
        return Outputs{nll_loss(x[0], x[1], weighted ? x[2] : Value{}, 9, reduction)};
      };
      op_case.reference = [=](const Refs& x) {
        Ref rows = ref_zeros({4});
        double denominator = 0;
        for (int64_t i = 0; i < 4; ++i) {
          const auto t = static_cast<int64_t>(x[1][i]);
          if (t == 9) continue;
          rows[i] = -x[0][i * 5 + t] * (weighted ? x[2][t] : 1);
          denominator += weighted ? x[2][t] : 1;
        }
        return Refs{reduce(rows, reduction, denominator)};
      };
      check(op_case);
    }
}

// --- losses of pairs

using Pointwise = std::function<double(double, double)>;

void check_pointwise(const std::string& name, CaseInput x, CaseInput target,
                     const std::function<Value(Value, Value, Reduction)>& loss, const Pointwise& formula) {
  for (Reduction reduction : {Reduction::kNone, Reduction::kMean, Reduction::kSum})
    check({.name = name + "_" + suffix({.reduction = reduction}, false),
           .inputs = {x, target},
           .build = [=](const Inputs& in) { return Outputs{loss(in[0], in[1], reduction)}; },
           .reference =
               [=](const Refs& in) {
                 Ref y = ref_zeros(in[0].shape);
                 for (int64_t i = 0; i < y.numel(); ++i) y[i] = formula(in[0][i], in[1][i]);
                 return Refs{reduce(y, reduction, static_cast<double>(y.numel()))};
               },
           .tolerance = 1e-5});  // sums of a dozen logarithms
}

TEST(PointwiseLoss, Distances) {
  const CaseInput x = real({3, 4}, -3, 3), t = real({3, 4}, -3, 3);
  check_pointwise("mse", x, t, mse_loss, [](double a, double b) { return (a - b) * (a - b); });
  check_pointwise("l1", x, t, l1_loss, [](double a, double b) { return std::abs(a - b); });
  check_pointwise(
      "smooth_l1", x, t, [](Value a, Value b, Reduction r) { return smooth_l1_loss(a, b, 0.5, r); },
      [](double a, double b) {
        const double d = std::abs(a - b);
        return d < 0.5 ? 0.5 * d * d / 0.5 : d - 0.25;
      });
  check_pointwise(
      "huber", x, t, [](Value a, Value b, Reduction r) { return huber_loss(a, b, 1.5, r); },
      [](double a, double b) {
        const double d = std::abs(a - b);
        return d <= 1.5 ? 0.5 * d * d : 1.5 * (d - 0.75);
      });
}

TEST(PointwiseLoss, Probabilities) {
  check_pointwise(
      "bce", real({3, 4}, 0.1, 0.9), real({3, 4}, 0, 1),
      [](Value a, Value b, Reduction r) { return bce_loss(a, b, {}, r); },
      [](double p, double t) { return -(t * std::log(p) + (1 - t) * std::log1p(-p)); });
  check_pointwise(
      "bce_with_logits", real({3, 4}, -6, 6), real({3, 4}, 0, 1),
      [](Value a, Value b, Reduction r) { return bce_with_logits_loss(a, b, {}, {}, r); },
      [](double x, double t) { return (1 - t) * std::log1p(std::exp(x)) + t * std::log1p(std::exp(-x)); });
  check_pointwise(
      "kl_div", real({3, 4}, -3, 0), real({3, 4}, 0.1, 1),
      [](Value a, Value b, Reduction r) { return kl_div_loss(a, b, false, r); },
      [](double x, double t) { return t * (std::log(t) - x); });
  check_pointwise(
      "kl_div_log", real({3, 4}, -3, 0), real({3, 4}, -3, 0),
      [](Value a, Value b, Reduction r) { return kl_div_loss(a, b, true, r); },
      [](double x, double t) { return std::exp(t) * (t - x); });
}

TEST(PointwiseLoss, WeightsBroadcast) {
  check({.name = "bce_with_logits_pos_weight",
         .inputs = {real({3, 4}, -6, 6), real({3, 4}, 0, 1), constant_real({3, 1}, 0.5, 2),
                    constant_real({4}, 1, 3)},
         .build = [](const Inputs& x) { return Outputs{bce_with_logits_loss(x[0], x[1], x[2], x[3])}; },
         .reference =
             [](const Refs& x) {
               Ref y = ref_zeros({});
               for (int64_t i = 0; i < 12; ++i)
                 y[0] += x[2][i / 4] / 12 *
                         ((1 - x[1][i]) * std::log1p(std::exp(x[0][i])) +
                          x[3][i % 4] * x[1][i] * std::log1p(std::exp(-x[0][i])));
               return Refs{y};
             }});
}

std::vector<double> run_pair(const std::vector<float>& x, const std::vector<float>& t,
                             const std::function<Value(Value, Value)>& loss) {
  const auto n = static_cast<int64_t>(x.size());
  return run_graph({{"x", Tensor::of<float>({n}, x)}, {"t", Tensor::of<float>({n}, t)}},
                   [&](const Inputs& in) {
                     return std::vector<std::pair<std::string, Value>>{{"y", loss(in[0], in[1])}};
                   })
      .at("y")
      .to_doubles();
}

TEST(PointwiseLoss, TheEndsOfTheRange) {
  const auto bce = run_pair({0, 1, 0, 1}, {0, 1, 1, 0},
                            [](Value x, Value t) { return bce_loss(x, t, {}, Reduction::kNone); });
  EXPECT_EQ(bce, (std::vector<double>{0, 0, 100, 100}));
  const auto logits = run_pair({100, -100, 100, -100}, {1, 0, 0, 1}, [](Value x, Value t) {
    return bce_with_logits_loss(x, t, {}, {}, Reduction::kNone);
  });
  EXPECT_LT(logits[0], 1e-40);
  EXPECT_LT(logits[1], 1e-40);
  EXPECT_EQ(logits[2], 100);
  EXPECT_EQ(logits[3], 100);
  const auto kl =
      run_pair({-1, -1}, {0, 1}, [](Value x, Value t) { return kl_div_loss(x, t, false, Reduction::kNone); });
  EXPECT_EQ(kl, (std::vector<double>{0, 1}));
}

TEST(PointwiseLoss, LowPrecisionGivesF32) {
  const TensorType x{DType::bf16, {3}};
  EXPECT_EQ(infer_case({x, x}, [](const Inputs& in) { return Outputs{mse_loss(in[0], in[1])}; })[0],
            (TensorType{DType::f32, {}}));
}

TEST(PointwiseLoss, RefusesWhatDoesNotFit) {
  const TensorType x{DType::f32, {3}}, two{DType::f32, {2}}, integer{DType::i64, {3}};
  expect_error(
      [&] {
        infer_case({x, two}, [](const Inputs& in) { return Outputs{mse_loss(in[0], in[1])}; });
      },
      {"[3]", "[2]"});
  expect_error(
      [&] {
        infer_case({x, integer}, [](const Inputs& in) { return Outputs{mse_loss(in[0], in[1])}; });
      },
      {"mse_loss", "floating-point", "i64[3]"});
}

}  // namespace
}  // namespace genesis::testing
