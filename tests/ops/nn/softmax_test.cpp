// Tests softmax, log_softmax and causal_softmax: every axis, sizes around the vector length, masked and invalid rows.
#include "schema/ops/nn/softmax.h"

#include <cmath>

#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Rows {
  int64_t outer = 1, n = 1, inner = 1;
};

Rows rows_of(const std::vector<int64_t>& shape, int64_t axis) {
  Rows rows;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    (i < axis ? rows.outer : i == axis ? rows.n : rows.inner) *= shape[static_cast<size_t>(i)];
  return rows;
}

// Returns the softmax of the first `seen(row)` elements of each row along `axis`; zero for the others.
Ref softmax_reference(const Ref& x, int64_t axis, bool log, double scale,
                      const std::function<int64_t(int64_t)>& seen) {
  const Rows rows = rows_of(x.shape, axis);
  Ref y = ref_zeros(x.shape);
  for (int64_t row = 0; row < rows.outer * rows.inner; ++row) {
    const auto at = [&](int64_t i) {
      return (row / rows.inner * rows.n + i) * rows.inner + row % rows.inner;
    };
    const int64_t n = seen(row);
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; ++i) max = std::max(max, scale * x[at(i)]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp(scale * x[at(i)] - max);
    for (int64_t i = 0; i < n; ++i) {
      const double shifted = scale * x[at(i)] - max;
      y[at(i)] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  }
  return y;
}

void check_axis(const std::string& name, std::vector<int64_t> shape, int64_t axis, double range = 3) {
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t front = axis < 0 ? axis + std::max<int64_t>(rank, 1) : axis;
  for (bool log : {false, true}) {
    check({.name = name + (log ? "_log" : ""),
           .inputs = {real(shape, -range, range)},
           .build =
               [=](const Inputs& x) { return Outputs{log ? log_softmax(x[0], axis) : softmax(x[0], axis)}; },
           .reference =
               [=](const Refs& x) {
                 const int64_t n = rows_of(x[0].shape, front).n;
                 return Refs{softmax_reference(x[0], front, log, 1, [n](int64_t) { return n; })};
               }});
  }
}

TEST(Softmax, EveryAxis) {
  check_axis("softmax_last", {3, 5}, -1);
  check_axis("softmax_first", {3, 5}, 0);
  check_axis("softmax_middle", {2, 3, 4}, 1);
  check_axis("softmax_vector", {7}, 0);
  check_axis("softmax_scalar", {}, -1);
  check_axis("softmax_one", {4, 1}, 1);
}

TEST(Softmax, LengthsAroundTheVectorSize) {
  for (int64_t n : {15, 16, 17, 64, 65, 131}) check_axis("softmax_n" + std::to_string(n), {2, n}, 1);
  check_axis("softmax_columns", {3, 37}, 0);
  check_axis("softmax_columns_outer", {2, 3, 19}, 1);
}

TEST(Softmax, LargeLogitsDoNotOverflow) { check_axis("softmax_large", {2, 9}, 1, 60); }

TEST(Softmax, EmptyTensors) {
  check_axis("softmax_no_rows", {0, 4}, 1);
  check_axis("softmax_no_columns", {3, 0}, 1);
  check_axis("softmax_no_inner", {3, 2, 0}, 1);
}

void check_causal(const std::string& name, std::vector<int64_t> shape, double scale) {
  check({.name = name,
         .inputs = {real(shape, -2, 2)},
         .build = [=](const Inputs& x) { return Outputs{causal_softmax(x[0], scale)}; },
         .reference =
             [=](const Refs& x) {
               const int64_t queries = x[0].dim(-2), keys = x[0].dim(-1);
               const auto seen = [=](int64_t row) { return row % queries + keys - queries + 1; };
               return Refs{softmax_reference(x[0], x[0].rank() - 1, false, scale, seen)};
             }});
}

TEST(CausalSoftmax, QueriesSeeEarlierKeys) {
  check_causal("causal_square", {4, 4}, 1);
  check_causal("causal_scaled", {2, 3, 3}, 0.125);
  check_causal("causal_more_keys", {2, 2, 3, 21}, 0.5);
  check_causal("causal_long", {18, 40}, 3);
}

std::vector<double> run_values(const std::vector<float>& x, int64_t n, bool log) {
  const auto rows = static_cast<int64_t>(x.size()) / n;
  const NamedTensors results = run_graph({{"x", Tensor::of<float>({rows, n}, x)}}, [&](const Inputs& in) {
    return std::vector<std::pair<std::string, Value>>{{"y", log ? log_softmax(in[0]) : softmax(in[0])}};
  });
  return results.at("y").to_doubles();
}

TEST(Softmax, RowsWithoutAChoiceBecomeNaN) {
  const float inf = INFINITY;
  for (bool log : {false, true}) {
    const auto y = run_values({-inf, -inf, inf, 0, NAN, 0, -inf, 1}, 2, log);
    for (int i : {0, 1, 4, 5}) EXPECT_TRUE(std::isnan(y[static_cast<size_t>(i)])) << i;
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[6], log ? -inf : 0);
    EXPECT_EQ(y[7], log ? 0 : 1);
  }
}

// The row is longer than the row buffer of the kernel, and its first blocks are all masked.
TEST(Softmax, LongRows) {
  constexpr int64_t n = 20000;
  std::vector<float> x(n, -INFINITY);
  for (int64_t i = n - 100; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 7);
  double sum = 0;
  for (int64_t i = n - 100; i < n; ++i) sum += std::exp(static_cast<double>(i % 7));
  const auto y = run_values(x, n, false), log_y = run_values(x, n, true);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_NEAR(y[at], i < n - 100 ? 0 : std::exp(x[at]) / sum, 1e-7);
    if (i < n - 100) continue;
    ASSERT_NEAR(log_y[at], x[at] - std::log(sum), 2e-6);
  }
}

TEST(CausalSoftmax, MoreQueriesThanKeysGivesNaN) {
  const NamedTensors results =
      run_graph({{"x", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 5})}}, [&](const Inputs& in) {
        return std::vector<std::pair<std::string, Value>>{{"y", causal_softmax(in[0])}};
      });
  const auto y = results.at("y").to_doubles();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 1);
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], 0.5);
}

TEST(Softmax, KeepsSymbolicShapes) {
  const TensorType type{DType::bf16, {Dim::symbol("batch"), 8}};
  EXPECT_EQ(infer_case({type}, [](const Inputs& x) { return Outputs{softmax(x[0], 0)}; })[0], type);
}

TEST(Softmax, RefusesWhatItCannotDo) {
  const TensorType real_type{DType::f32, {2, 3}}, integer_type{DType::i32, {2, 3}}, vector{DType::f32, {3}};
  const auto fails = [](const TensorType& type, const std::function<Value(Value)>& f,
                        std::vector<std::string> parts) {
    expect_error([&] { infer_case({type}, [&](const Inputs& x) { return Outputs{f(x[0])}; }); }, parts);
  };
  fails(real_type, [](Value x) { return softmax(x, 2); }, {"axis 2", "rank 2"});
  fails(integer_type, [](Value x) { return softmax(x); }, {"floating-point", "i32[2,3]"});
  fails(vector, [](Value x) { return causal_softmax(x); }, {"[..., queries, keys]", "[3]"});
  fails(real_type, [](Value x) { return causal_softmax(x, 0); }, {"scale is 0", "more than 0"});
}

}  // namespace
}  // namespace genesis::testing
