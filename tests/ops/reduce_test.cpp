// Tests reductions over every kind of axes (rows, columns, several at once, none), and edge cases of PyTorch's
// semantics.
#include "schema/ops/tensor/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/training/autodiff.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

using Row = std::vector<double>;
using Formula = double (*)(const Row&);

bool named(const Axes& axes, int64_t i, int64_t rank) {
  if (axes.empty()) return true;
  return std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return (a < 0 ? a + rank : a) == i; });
}

// Applies f to the elements of each result, in row-major order.
Ref reduce_reference(const Ref& x, const Axes& axes, bool keep, Formula f) {
  std::vector<int64_t> kept, shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool gone = named(axes, i, x.rank());
    kept.push_back(gone ? 1 : x.dim(i));
    if (!gone || keep) shape.push_back(kept.back());
  }
  Ref y = ref_zeros(shape);
  std::vector<Row> rows(y.data.size());
  for (int64_t i = 0; i < x.numel(); ++i) {
    std::vector<int64_t> at = unravel(i, x.shape);
    for (size_t k = 0; k < at.size(); ++k) at[k] = kept[k] == 1 ? 0 : at[k];
    rows[static_cast<size_t>(ravel(at, kept))].push_back(x[i]);
  }
  for (size_t i = 0; i < rows.size(); ++i) y.data[i] = f(rows[i]);
  return y;
}

double sum_of(const Row& x) {
  double sum = 0;
  for (double v : x) sum += v;
  return sum;
}
double mean_of(const Row& x) { return sum_of(x) / static_cast<double>(x.size()); }
double prod_of(const Row& x) {
  double product = 1;
  for (double v : x) product *= v;
  return product;
}
double max_of(const Row& x) {
  double best = -kInf;
  for (double v : x) best = std::isnan(best) || v < best ? best : v;
  return best;
}
double min_of(const Row& x) {
  double best = kInf;
  for (double v : x) best = std::isnan(best) || v > best ? best : v;
  return best;
}
double var_of(const Row& x) {
  const double mean = mean_of(x);
  double squares = 0;
  for (double v : x) squares += (v - mean) * (v - mean);
  return squares / (static_cast<double>(x.size()) - 1);
}
double population_var_of(const Row& x) {
  return var_of(x) * (static_cast<double>(x.size()) - 1) / static_cast<double>(x.size());
}
double std_of(const Row& x) { return std::sqrt(var_of(x)); }
double logsumexp_of(const Row& x) {
  const double top = max_of(x);
  if (std::isinf(top)) return top;
  double sum = 0;
  for (double v : x) sum += std::exp(v - top);
  return top + std::log(sum);
}
double any_of(const Row& x) {
  return std::any_of(x.begin(), x.end(), [](double v) { return v != 0; });
}
double all_of(const Row& x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return v != 0; });
}

using Op = Value (*)(Value, const AxisList&, bool);

Value var_1(Value x, const AxisList& axes, bool keep) { return var(x, axes, 1, keep); }
Value var_0(Value x, const AxisList& axes, bool keep) { return var(x, axes, 0, keep); }
Value std_1(Value x, const AxisList& axes, bool keep) { return stddev(x, axes, 1, keep); }

OpCase reduction(const std::string& name, CaseInput x, Axes axes, bool keep, Op op, Formula formula) {
  OpCase one = {
      .name = name,
      .inputs = {std::move(x)},
      .build = [=](const Inputs& in) { return Outputs{op(in[0], axes, keep)}; },
      .reference = [=](const Refs& in) { return Refs{reduce_reference(in[0], axes, keep, formula)}; }};
  return op == static_cast<Op>(sum) || op == static_cast<Op>(mean) ? with_terms(one) : one;
}

// Covers rows, columns, the middle, both ends and everything, with and without the axes kept.
void check_all_axes(const std::string& name, Op op, Formula formula, double low = -2, double high = 2) {
  const std::vector<std::pair<std::vector<int64_t>, Axes>> cases = {{{6}, {}},
                                                                    {{3, 7}, {1}},
                                                                    {{7, 3}, {0}},
                                                                    {{2, 5, 3}, {1}},
                                                                    {{2, 3, 4}, {0, 2}},
                                                                    {{2, 3, 4}, {2, 1}},
                                                                    {{2, 3, 4}, {-3, 1}},
                                                                    {{2, 1, 4}, {1}},
                                                                    {{2, 2, 3, 2}, {-3, 3}},
                                                                    {{5, 4}, {}}};
  int number = 0;
  for (const auto& [shape, axes] : cases)
    for (bool keep : {false, true})
      check(reduction(name + std::to_string(number++), real(shape, low, high), axes, keep, op, formula));
}

TEST(Reduce, Sum) { check_all_axes("sum", sum, sum_of); }
TEST(Reduce, Mean) { check_all_axes("mean", mean, mean_of); }
TEST(Reduce, Prod) { check_all_axes("prod", prod, prod_of, 0.5, 1.5); }
TEST(Reduce, Max) { check_all_axes("max", max, max_of); }
TEST(Reduce, Min) { check_all_axes("min", min, min_of); }
TEST(Reduce, LogSumExp) { check_all_axes("logsumexp", logsumexp, logsumexp_of, -5, 5); }

TEST(Reduce, Moments) {
  for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}, Axes{0, 2}}) {
    const std::string name =
        "_axes" + std::to_string(axes.size()) + (axes.empty() ? "" : std::to_string(axes[0]));
    check(reduction("var" + name, real({4, 3, 2}), axes, false, var_1, var_of));
    check(reduction("var0" + name, real({4, 3, 2}), axes, true, var_0, population_var_of));
    check(reduction("std" + name, real({4, 3, 2}), axes, true, std_1, std_of));
  }
}

TEST(Reduce, LongAxesAgreeToo) {  // blocks, chunks and their merging
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 140001}, {140001, 3}, {2000, 130}, {2, 5000, 2}}) {
    const std::string name = "_long" + std::to_string(shape[0]) + "_" + std::to_string(shape.size());
    for (int64_t axis : {int64_t{0}, int64_t{1}}) {
      OpCase sums =
          reduction("sum" + name + std::to_string(axis), real(shape, 0, 1), {axis}, false, sum, sum_of);
      sums.gradient = sums.low_precision = false;
      check(sums);
      OpCase tops = reduction("max" + name + std::to_string(axis), real(shape), {axis}, false, max, max_of);
      tops.gradient = tops.low_precision = false;
      check(tops);
    }
    OpCase spread = reduction("var" + name, real(shape, 100, 101), {}, false, var_1, var_of);
    spread.gradient = spread.low_precision = false;
    check(spread);
    OpCase lse = reduction("logsumexp" + name, real(shape, -9, 9), {}, false, logsumexp, logsumexp_of);
    lse.gradient = lse.low_precision = false;
    check(lse);
  }
}

TEST(Reduce, SumsAreFarBetterThanNaive) {
  const int64_t n = 1 << 24;
  const Tensor x = Tensor::of<float>({n}, std::vector<float>(static_cast<size_t>(n), 0.1f));
  const auto results = run_graph({{"x", x}}, [](const Inputs& in) {
    return std::vector<std::pair<std::string, Value>>{{"sum", sum(in[0])}, {"mean", mean(in[0])}};
  });
  const double exact = static_cast<double>(0.1f);
  EXPECT_NEAR(results.at("sum").to_doubles()[0] / (exact * static_cast<double>(n)), 1.0, 5e-7);
  EXPECT_NEAR(results.at("mean").to_doubles()[0] / exact, 1.0, 5e-7);
}

TEST(Reduce, IntegersAndBools) {
  const auto integer_case = [](const std::string& name, DType dtype, Op op, Formula formula) {
    for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}})
      check(reduction(name + std::to_string(axes.empty() ? 9 : axes[0]), integers({5, 40}, 1, 4, dtype), axes,
                      false, op, formula));
  };
  for (DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64}) {
    const std::string type(name_of(dtype));
    integer_case("sum_" + type, dtype, sum, sum_of);
    integer_case("max_" + type, dtype, max, max_of);
    integer_case("min_" + type, dtype, min, min_of);
    integer_case("all_" + type, dtype, all, all_of);
  }
  check(reduction("prod_i32", integers({3, 20}, 1, 4, DType::i32), {1}, false, prod, prod_of));
  for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}}) {
    const std::string axis = std::to_string(axes.empty() ? 9 : axes[0]);
    check(reduction("any_bool" + axis, booleans({9, 3}), axes, true, any, any_of));
    check(reduction("all_bool" + axis, booleans({3, 2}), axes, false, all, all_of));
    check(reduction("sum_bool" + axis, booleans({9, 30}), axes, false, sum, sum_of));
    check(reduction("max_bool" + axis, booleans({9, 3}), axes, false, max, max_of));
  }
  OpCase reals = reduction("any_real", real_data({2, 3}, {0, -0.0, 0, 0, 0.5, 0}), {1}, false, any, any_of);
  reals.gradient = false;
  check(reals);
}

TEST(Reduce, OfNothing) {
  check(reduction("sum_none", real({2, 0}), {1}, false, sum, sum_of));
  check(reduction("sum_no_rows", real({0, 3}), {1}, false, sum, sum_of));
  check(reduction("sum_no_rows_columns", real({0, 3}), {0}, false, sum, sum_of));
  check(reduction("prod_none", real({2, 0}), {1}, false, prod, prod_of));
  check(reduction("mean_none", real({2, 0}), {1}, false, mean, mean_of));
  check(reduction("logsumexp_none", real({2, 0}), {1}, false, logsumexp, [](const Row&) { return -kInf; }));
  check(reduction("var_none", real({2, 0}), {1}, false, var_1, [](const Row&) { return std::nan(""); }));
  OpCase one =
      reduction("var_of_one", real({3, 1}), {1}, false, var_1, [](const Row&) { return std::nan(""); });
  one.gradient = false;  // comparing NaN with NaN shows nothing
  check(one);
  check(reduction("any_none", booleans({2, 0}), {1}, false, any, any_of));
  check(reduction("all_none", booleans({2, 0}), {1}, false, all, all_of));
  check(reduction("sum_rank0", real({}), {}, true, sum, sum_of));
  check(reduction("max_rank0", real({}), {}, false, max, max_of));
}

TEST(Reduce, NanAndInfinity) {
  const CaseInput x = real_data({4, 3}, {1, kNan, 3, kInf, 1, 2, -kInf, -kInf, -kInf, -kInf, kInf, 0});
  const auto plain = [&](const std::string& name, Axes axes, Op op, Formula formula) {
    OpCase one = reduction(name, x, axes, false, op, formula);
    one.gradient = false;
    check(one);
  };
  plain("max_nan", {1}, max, max_of);
  plain("min_nan", {1}, min, min_of);
  plain("max_nan_columns", {0}, max, max_of);
  plain("min_nan_columns", {0}, min, min_of);
  plain("sum_nan", {1}, sum, sum_of);
  OpCase lse = reduction("logsumexp_inf", real_data({3, 3}, {kInf, 1, 2, -kInf, -kInf, -kInf, -kInf, 0, 0}),
                         {1}, false, logsumexp, logsumexp_of);
  lse.gradient = false;
  check(lse);
}

std::vector<double> gradient_of(const std::vector<float>& row, Value (*op)(Value)) {
  const Tensor x = Tensor::of<float>({static_cast<int64_t>(row.size())}, row);
  const auto results = run_graph({{"x", x}}, [&](const Inputs& in) {
    const Value dx = passes::gradients(in.graph, op(in[0]), {in[0]})[0];
    return std::vector<std::pair<std::string, Value>>{{"dx", dx}};
  });
  return results.at("dx").to_doubles();
}

// A formula would give NaN for a row without mass and for a row without spread.
TEST(Reduce, GradientsThatAreZero) {
  EXPECT_EQ(gradient_of({-INFINITY, -INFINITY}, [](Value x) { return logsumexp(x); }),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(gradient_of({2, 2, 2}, [](Value x) { return stddev(x); }), (std::vector<double>{0, 0, 0}));
}

TEST(Reduce, TiesShareTheGradient) {
  // The reference's differences see half of a tie from each side: the average is the equal share of two.
  check(reduction("max_ties", real_data({2, 3}, {1, 3, 3, 2, 2, 0}), {1}, false, max, max_of));
  check(reduction("min_ties", real_data({2, 3}, {1, 1, 3, 2, 0, 0}), {1}, true, min, min_of));
}

TEST(Reduce, ProductsWithZeros) {
  check(reduction("prod_one_zero", real_data({2, 3}, {2, 0, 3, 1, 2, 3}), {1}, false, prod, prod_of));
  check(reduction("prod_two_zeros", real_data({2, 3}, {0, 0, 3, 1, 2, 0}), {1}, false, prod, prod_of));
  check(reduction("prod_zeros_columns", real_data({3, 2}, {0, 1, 2, 0, 3, 0}), {0}, true, prod, prod_of));
}

// --- argmax, argmin, cumsum

Ref arg_reference(const Ref& x, int64_t axis, bool greatest) {
  const Axes axes = x.rank() == 0 ? Axes{} : Axes{axis};
  const Formula best = greatest ? +[](const Row& row) {
    size_t at = 0;
    for (size_t i = 1; i < row.size(); ++i)
      if (!std::isnan(row[at]) && (std::isnan(row[i]) || row[i] > row[at])) at = i;
    return static_cast<double>(at);
  }
  : +[](const Row& row) {
      size_t at = 0;
      for (size_t i = 1; i < row.size(); ++i)
        if (!std::isnan(row[at]) && (std::isnan(row[i]) || row[i] < row[at])) at = i;
      return static_cast<double>(at);
    };
  return reduce_reference(x, axes, false, best);
}

void check_arg(const std::string& name, const CaseInput& x, int64_t axis) {
  for (bool greatest : {true, false})
    check(
        {.name = (greatest ? "argmax_" : "argmin_") + name,
         .inputs = {x},
         .build =
             [=](const Inputs& in) { return Outputs{greatest ? argmax(in[0], axis) : argmin(in[0], axis)}; },
         .reference = [=](const Refs& in) { return Refs{arg_reference(in[0], axis, greatest)}; },
         .gradient = false});
}

TEST(Reduce, Arg) {
  check_arg("rows", real({3, 50}), 1);
  check_arg("columns", real({7, 4}), 0);
  check_arg("middle", real({2, 5, 3}), -2);
  check_arg("long", real({2, 3001}), 1);
  check_arg("equal", real_data({2, 4}, {1, 2, 2, 1, 5, 5, 5, 5}), 1);
  check_arg("nan", real_data({2, 4}, {1, kNan, 9, kNan, -kInf, kInf, kInf, -kInf}), 1);
  check_arg("integers", integers({4, 600}, -100, 100, DType::i32), 1);
  check_arg("scalar", real({}), -1);
}

Ref cumsum_reference(const Ref& x, int64_t axis, bool reverse) {
  Ref y = ref_zeros(x.shape);
  if (x.rank() == 0) return x;
  const auto at = static_cast<size_t>(axis < 0 ? axis + x.rank() : axis);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const std::vector<int64_t> to = unravel(i, x.shape);
    for (std::vector<int64_t> from = to; from[at] >= 0 && from[at] < x.shape[at];
         from[at] += reverse ? 1 : -1)
      y[i] += x[ravel(from, x.shape)];
  }
  return y;
}

TEST(Reduce, CumSum) {
  const auto cumsum_case = [](const std::string& name, const CaseInput& x, int64_t axis) {
    for (bool reverse : {false, true})
      check({.name = "cumsum_" + name + (reverse ? "_reverse" : ""),
             .inputs = {x},
             .build = [=](const Inputs& in) { return Outputs{cumsum(in[0], axis, reverse)}; },
             .reference = [=](const Refs& in) { return Refs{cumsum_reference(in[0], axis, reverse)}; }});
  };
  cumsum_case("rows", real({3, 9}), 1);
  cumsum_case("columns", real({5, 4}), 0);
  cumsum_case("middle", real({2, 3, 70}), 1);
  cumsum_case("integers", integers({3, 9}, -5, 5, DType::i8), -1);
  cumsum_case("bools", booleans({20}), 0);
  cumsum_case("scalar", real({}), 0);
  cumsum_case("none", real({2, 0}), 1);
}

TEST(Reduce, Shapes) {
  const TensorType x{DType::bf16, Shape::parse("[batch,4,seq]")};
  const auto types = infer_case({x}, [](const Inputs& in) {
    return Outputs{sum(in[0], {0, -1}), mean(in[0]),      max(in[0], {1}, true),
                   argmax(in[0]),       cumsum(in[0], 1), any(in[0], {2})};
  });
  const char* expected[] = {"bf16[4]",           "bf16[]",       "bf16[batch,1,seq]", "i64[batch,4]",
                            "bf16[batch,4,seq]", "bool[batch,4]"};
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(types[i].to_string(), expected[i]);
}

TEST(Reduce, Errors) {
  const auto fails = [](const TensorType& type, Value (*op)(Value), const std::vector<std::string>& parts) {
    expect_error([&] { infer_case({type}, [&](const Inputs& in) { return Outputs{op(in[0])}; }); }, parts);
  };
  const TensorType reals{DType::f32, {3, 4}}, whole{DType::i32, {3, 4}}, none{DType::f32, {3, 0}};
  fails(reals, [](Value x) { return sum(x, {2}); }, {"axis 2 is out of range for rank 2"});
  fails(reals, [](Value x) { return sum(x, {1, -1}); }, {"named twice"});
  fails(whole, [](Value x) { return mean(x); }, {"mean takes real numbers", "i32[3,4]", "cast"});
  fails(whole, [](Value x) { return var(x); }, {"var takes real numbers"});
  fails(none, [](Value x) { return max(x, {1}); }, {"max over no elements of f32[3,0]", "max"});
  fails(none, [](Value x) { return argmin(x, 1); }, {"argmin over no elements"});
}

}  // namespace
}  // namespace genesis::testing
