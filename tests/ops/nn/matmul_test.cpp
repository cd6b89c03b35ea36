// Tests matmul and linear against plain loops, in every arrangement of operands that torch.matmul accepts.
#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using Sizes = std::vector<int64_t>;

Sizes without_last(Sizes sizes, int64_t count) { return {sizes.begin(), sizes.end() - count}; }

// Returns the flat index into an operand of sizes `sizes` that broadcasts against `index`, aligned right.
int64_t broadcast_index(const Sizes& index, const Sizes& sizes) {
  int64_t flat = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    flat = flat * sizes[i] + (sizes[i] == 1 ? 0 : index[i + index.size() - sizes.size()]);
  return flat;
}

Sizes broadcast_sizes(const Sizes& a, const Sizes& b) {
  Sizes sizes(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= sizes.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    sizes[sizes.size() - i] = x == 1 ? y : x;
  }
  return sizes;
}

Ref matmul_reference(Ref a, Ref b, bool transpose_a = false, bool transpose_b = false) {
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  if (vector_a) a.shape = {1, a.dim(0)};
  if (vector_b) b.shape = {b.dim(0), 1};
  const int64_t m = a.dim(transpose_a ? -1 : -2), k = a.dim(transpose_a ? -2 : -1),
                n = b.dim(transpose_b ? -2 : -1);
  const Sizes batch_a = without_last(a.shape, 2), batch_b = without_last(b.shape, 2);
  Sizes shape = broadcast_sizes(batch_a, batch_b);
  const Sizes batch = shape;
  shape.push_back(m);
  shape.push_back(n);
  Ref y = ref_zeros(shape);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const Sizes at = unravel(i, shape), outer = without_last(at, 2);
    const int64_t row = at[at.size() - 2], column = at.back();
    const int64_t base_a = broadcast_index(outer, batch_a) * m * k,
                  base_b = broadcast_index(outer, batch_b) * k * n;
    for (int64_t p = 0; p < k; ++p)
      y[i] += a[base_a + (transpose_a ? p * m + row : row * k + p)] *
              b[base_b + (transpose_b ? column * k + p : p * n + column)];
  }
  if (vector_b) y.shape.pop_back();
  if (vector_a) y.shape.erase(y.shape.end() - (vector_b ? 1 : 2));
  return y;
}

OpCase matmul_case(const std::string& name, const Sizes& a, const Sizes& b, bool transpose_a = false,
                   bool transpose_b = false) {
  return with_terms(
      {.name = "matmul_" + name,
       .inputs = {real(a), real(b)},
       .build = [=](const Inputs& x) { return Outputs{matmul(x[0], x[1], transpose_a, transpose_b)}; },
       .reference =
           [=](const Refs& x) { return Refs{matmul_reference(x[0], x[1], transpose_a, transpose_b)}; }});
}

TEST(Matmul, Matrices) {
  check(matmul_case("square", {5, 5}, {5, 5}));
  check(matmul_case("wide", {3, 17}, {17, 40}));
  check(matmul_case("row", {1, 33}, {33, 20}));
  check(matmul_case("column", {20, 33}, {33, 1}));
  check(matmul_case("outer", {7, 1}, {1, 9}));
}

TEST(Matmul, TransposedOperands) {
  check(matmul_case("ta", {6, 4}, {6, 5}, true, false));
  check(matmul_case("tb", {4, 6}, {5, 6}, false, true));
  check(matmul_case("tatb", {6, 4}, {5, 6}, true, true));
  check(matmul_case("batch_ta", {3, 6, 4}, {3, 6, 5}, true, false));
  check(matmul_case("batch_tb", {3, 4, 6}, {3, 5, 6}, false, true));
  check(matmul_case("batch_tatb", {3, 6, 4}, {3, 5, 6}, true, true));
}

TEST(Matmul, Vectors) {
  check(matmul_case("dot", {7}, {7}));
  check(matmul_case("vector_matrix", {7}, {7, 3}));
  check(matmul_case("matrix_vector", {3, 7}, {7}));
  check(matmul_case("vector_batch", {7}, {2, 7, 3}));
  check(matmul_case("batch_vector", {2, 3, 7}, {7}));
}

TEST(Matmul, Batches) {
  check(matmul_case("batch", {4, 2, 3}, {4, 3, 5}));
  check(matmul_case("one_b", {4, 2, 3}, {3, 5}));
  check(matmul_case("one_b_tb", {2, 2, 2, 3}, {5, 3}, false, true));
  check(matmul_case("one_a", {2, 3}, {4, 3, 5}));
  check(matmul_case("one_a_ta", {3, 2}, {4, 3, 5}, true, false));
  check(matmul_case("one_b_ta", {4, 3, 2}, {3, 5}, true, false));
  check(matmul_case("b_of_ones", {4, 2, 3}, {1, 1, 3, 5}));
  check(matmul_case("inner_broadcast", {2, 1, 2, 3}, {2, 4, 3, 5}));
  check(matmul_case("outer_broadcast", {1, 4, 2, 3}, {2, 4, 3, 5}));
  check(matmul_case("grouped", {2, 2, 3, 4, 5}, {2, 2, 1, 5, 6}));
  check(matmul_case("grouped_tb", {2, 2, 3, 2, 5}, {2, 2, 1, 6, 5}, false, true));
  check(matmul_case("grouped_ta", {2, 3, 5, 4}, {2, 1, 5, 6}, true, false));
  check(matmul_case("crossed", {2, 1, 3, 2, 3}, {1, 4, 1, 3, 2}));
  check(matmul_case("crossed_deep", {2, 1, 2, 2, 2}, {1, 3, 2, 2, 2}));
}

// Returns matmul_case with an addend of the result's shape.
OpCase with_addend(const std::string& name, const Sizes& a, const Sizes& b, const Sizes& y,
                   bool transpose_a = false, bool transpose_b = false) {
  return with_terms(
      {.name = "matmul_addend_" + name,
       .inputs = {real(a), real(b), real(y)},
       .build = [=](const Inputs& x) { return Outputs{matmul(x[0], x[1], transpose_a, transpose_b, x[2])}; },
       .reference =
           [=](const Refs& x) {
             Ref sum = matmul_reference(x[0], x[1], transpose_a, transpose_b);
             for (int64_t i = 0; i < sum.numel(); ++i) sum[i] += x[2][i];
             return Refs{sum};
           }});
}

TEST(Matmul, Addend) {
  check(with_addend("square", {5, 5}, {5, 5}, {5, 5}));
  check(with_addend("row", {1, 33}, {33, 20}, {1, 20}));
  check(with_addend("row_tb", {1, 32}, {20, 32}, {1, 20}, false, true));
  check(with_addend("ta", {6, 4}, {6, 5}, {4, 5}, true, false));
  check(with_addend("tatb", {6, 4}, {5, 6}, {4, 5}, true, true));
  check(with_addend("batch", {4, 2, 3}, {4, 3, 5}, {4, 2, 5}));
  check(with_addend("one_b", {4, 2, 3}, {3, 5}, {4, 2, 5}));
  check(with_addend("one_a", {2, 3}, {4, 3, 5}, {4, 2, 5}));
  check(with_addend("crossed", {2, 1, 3, 2, 3}, {1, 4, 1, 3, 2}, {2, 4, 3, 2, 2}));
  check(with_addend("dot", {7}, {7}, {}));
  check(with_addend("vector_batch", {7}, {2, 7, 3}, {2, 3}));
  check(with_addend("batch_vector", {2, 3, 7}, {7}, {2, 3}));
}

TEST(Matmul, AddendOfEmptySizes) {
  check(with_addend("no_rows", {0, 3}, {3, 4}, {0, 4}));
  check(with_addend("no_depth", {2, 0}, {0, 4}, {2, 4}));
  check(with_addend("no_batch", {0, 2, 3}, {0, 3, 4}, {0, 2, 4}));
}

// Another node makes the addend and nothing else reads it, so the result overwrites it.
TEST(Matmul, ResultOverItsAddend) {
  for (const Sizes& size : {Sizes{3, 70, 40}, Sizes{60, 70, 40}, Sizes{20, 30, 3000}}) {
    const Sizes a{size[0], size[2]}, b{size[2], size[1]}, y{size[0], size[1]};
    OpCase over = with_addend("over_" + std::to_string(size[2]), a, b, y);
    over.build = [](const Inputs& x) { return Outputs{matmul(x[0], x[1], false, false, neg(x[2]))}; };
    over.reference = [](const Refs& x) {
      Ref sum = matmul_reference(x[0], x[1]);
      for (int64_t i = 0; i < sum.numel(); ++i) sum[i] -= x[2][i];
      return Refs{sum};
    };
    over.gradient = false;
    check(over);
  }
}

TEST(Matmul, AddendErrors) {
  const auto product = [](TensorType addend) {
    return [=] {
      infer_case({{DType::f32, {2, 3}}, {DType::f32, {3, 5}}, addend},
                 [](const Inputs& x) { return Outputs{matmul(x[0], x[1], false, false, x[2])}; });
    };
  };
  expect_error(product({DType::f32, {5}}), {"addend must be f32[2,5]", "f32[5]"});
  expect_error(product({DType::f32, {2, 1}}), {"addend must be f32[2,5]", "f32[2,1]"});
}

TEST(Matmul, EmptySizes) {
  check(matmul_case("no_rows", {0, 3}, {3, 4}));
  check(matmul_case("no_columns", {2, 3}, {3, 0}));
  check(matmul_case("no_depth", {2, 0}, {0, 4}));
  check(matmul_case("no_batch", {0, 2, 3}, {0, 3, 4}));
  check(matmul_case("no_batch_one_b", {0, 2, 3}, {3, 4}));
}

TEST(Matmul, Integers) {
  for (DType dtype : {DType::i32, DType::i64, DType::u8})
    check({.name = "matmul_" + std::string(name_of(dtype)),
           .inputs = {integers({3, 4}, 0, 5, dtype), integers({4, 2}, 0, 5, dtype)},
           .build = [](const Inputs& x) { return Outputs{matmul(x[0], x[1])}; },
           .reference = [](const Refs& x) { return Refs{matmul_reference(x[0], x[1])}; },
           .gradient = false});
}

TEST(Matmul, Types) {
  const auto types = infer_case({{DType::bf16, {Dim::symbol("b"), 3, 4}}, {DType::f32, {4, 5}}},
                                [](const Inputs& x) { return Outputs{matmul(x[0], x[1])}; });
  EXPECT_EQ(types[0].to_string(), "f32[b,3,5]");
}

TEST(Matmul, Errors) {
  const auto product = [](TensorType a, TensorType b, bool ta = false) {
    return [=] { infer_case({a, b}, [=](const Inputs& x) { return Outputs{matmul(x[0], x[1], ta)}; }); };
  };
  expect_error(product({DType::f32, {2, 3}}, {DType::f32, {4, 5}}),
               {"f32[2,3]", "f32[4,5]", "inner sizes 3 and 4"});
  expect_error(product({DType::f32, {2, 3}}, {DType::f32, {3, 5}}, true), {"f32[2,3] transposed", "2 and 3"});
  expect_error(product({DType::f32, {3, 2, 3}}, {DType::f32, {2, 3, 5}}), {"do not broadcast"});
  expect_error(product({DType::f32, {}}, {DType::f32, {3}}), {"at least one axis"});
  expect_error(product({DType::f32, {3}}, {DType::f32, {3}}, true), {"cannot be transposed"});
  expect_error(product({DType::boolean, {2, 2}}, {DType::boolean, {2, 2}}), {"bool"});
}

double activate(double x, Activation activation) {
  const double cubic = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(cubic));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

Ref linear_reference(const Refs& x, Activation activation) {
  Ref y = matmul_reference(x[0], x[1], false, true);
  const int64_t out = x[1].dim(0);
  for (int64_t i = 0; i < y.numel(); ++i)
    y[i] = activate(y[i] + (x.size() > 2 ? x[2][i % out] : 0), activation);
  return y;
}

OpCase linear_case(const std::string& name, const Sizes& x, int64_t out, bool bias, Activation activation) {
  OpCase result{
      .name = "linear_" + name,
      .inputs = {real(x), real({out, x.back()})},
      .build =
          [=](const Inputs& v) { return Outputs{linear(v[0], v[1], bias ? v[2] : Value{}, activation)}; },
      .reference = [=](const Refs& v) { return Refs{linear_reference(v, activation)}; }};
  if (bias) result.inputs.push_back(real({out}));
  return activation == Activation::kNone ? with_terms(std::move(result)) : result;
}

TEST(Linear, Shapes) {
  check(linear_case("matrix", {6, 5}, 7, true, Activation::kNone));
  check(linear_case("without_bias", {6, 5}, 7, false, Activation::kNone));
  check(linear_case("batch", {2, 3, 5}, 4, true, Activation::kNone));
  check(linear_case("vector", {5}, 4, true, Activation::kNone));
  OpCase wide = linear_case("wide", {9, 70}, 130, true, Activation::kNone);
  wide.gradient = false;
  check(wide);
  check(linear_case("empty", {0, 5}, 4, true, Activation::kNone));
  check(linear_case("no_features", {3, 0}, 4, true, Activation::kNone));
}

TEST(Linear, Activations) {
  check(linear_case("relu", {6, 5}, 7, true, Activation::kRelu));
  check(linear_case("gelu", {6, 5}, 7, true, Activation::kGelu));
  check(linear_case("gelu_tanh", {6, 5}, 7, true, Activation::kGeluTanh));
  check(linear_case("silu", {2, 3, 5}, 7, true, Activation::kSilu));
  check(linear_case("silu_without_bias", {6, 5}, 7, false, Activation::kSilu));
}

OpCase linear_addend_case(const std::string& name, const Sizes& x, int64_t out, bool bias) {
  OpCase c = linear_case("addend_" + name, x, out, bias, Activation::kNone);
  Sizes y = without_last(x, 1);
  y.push_back(out);
  c.inputs.push_back(real(y));
  const size_t last = c.inputs.size() - 1;
  c.build = [=](const Inputs& v) {
    return Outputs{linear(v[0], v[1], bias ? v[2] : Value{}, Activation::kNone, v[last])};
  };
  c.reference = [=](const Refs& v) {
    Ref sum = linear_reference(bias ? Refs{v[0], v[1], v[2]} : Refs{v[0], v[1]}, Activation::kNone);
    for (int64_t i = 0; i < sum.numel(); ++i) sum[i] += v[last][i];
    return Refs{sum};
  };
  return with_terms(c);
}

TEST(Linear, Addend) {
  check(linear_addend_case("matrix", {6, 5}, 7, true));
  check(linear_addend_case("without_bias", {6, 5}, 7, false));
  check(linear_addend_case("batch", {2, 3, 5}, 4, true));
  check(linear_addend_case("vector", {5}, 4, false));
  check(linear_addend_case("few_rows", {2, 64}, 40, true));
  check(linear_addend_case("empty", {0, 5}, 4, true));
  check(linear_addend_case("no_features", {3, 0}, 4, true));
}

using Layers = std::vector<int64_t>;  // out_features of each layer

OpCase merged_case(const std::string& name, const Sizes& x, const Layers& out, bool bias,
                   Activation activation = Activation::kNone) {
  const size_t count = out.size();
  OpCase result{
      .name = "linears_" + name,
      .inputs = {real(x)},
      .build =
          [=](const Inputs& v) {
            const auto first = v.values.begin() + 1;
            const auto middle = first + static_cast<std::ptrdiff_t>(count);
            return linear({.activation = activation}, {v[0], {first, middle}, {middle, v.values.end()}});
          },
      .reference =
          [=](const Refs& v) {
            Refs y;
            for (size_t i = 0; i < count; ++i)
              y.push_back(linear_reference(
                  bias ? Refs{v[0], v[1 + i], v[1 + count + i]} : Refs{v[0], v[1 + i]}, activation));
            return y;
          }};
  for (const int64_t n : out) result.inputs.push_back(real({n, x.back()}));
  for (const int64_t n : out)
    if (bias) result.inputs.push_back(real({n}));
  return activation == Activation::kNone ? with_terms(std::move(result)) : result;
}

OpCase without_gradient(OpCase c) {
  c.gradient = false;
  return c;
}

TEST(LinearOfSeveralWeights, Layers) {
  check(merged_case("one", {2, 5}, {3}, false));
  check(merged_case("two", {2, 3, 5}, {4, 7}, false));
  check(merged_case("biases", {3, 5}, {4, 2, 7}, true));
  check(merged_case("vector", {5}, {4, 3}, true));
  check(merged_case("silu", {2, 5}, {4, 3}, true, Activation::kSilu));
}

TEST(LinearOfSeveralWeights, FewRowsInManyPieces) {
  check(without_gradient(merged_case("wide", {1, 256}, {500, 131, 3}, true)));
  OpCase rows = without_gradient(merged_case("rows", {9, 260}, {70, 200}, false));
  check(rows);
}

TEST(LinearOfSeveralWeights, ManyRows) {
  check(without_gradient(merged_case("tall", {50, 33}, {20, 70}, true)));
}

TEST(LinearOfSeveralWeights, EmptySizes) {
  check(merged_case("no_rows", {0, 5}, {4, 3}, true));
  check(merged_case("no_columns", {2, 5}, {4, 0}, true));
  check(merged_case("no_features", {2, 0}, {4, 3}, true));
}

TEST(LinearOfSeveralWeights, Errors) {
  const TensorType x{DType::f32, {2, 3}}, weight{DType::f32, {4, 3}}, bias{DType::f32, {4}};
  const auto build = [](std::vector<TensorType> types, size_t weights) {
    return [=] {
      infer_case(types, [=](const Inputs& v) {
        const auto middle = v.values.begin() + 1 + static_cast<std::ptrdiff_t>(weights);
        return linear({}, {v[0], {v.values.begin() + 1, middle}, {middle, v.values.end()}});
      });
    };
  };
  expect_error(build({x, weight, weight, bias}, 2), {"2 weights and 1 biases"});
  expect_error(build({x, weight, {DType::f32, {4, 5}}}, 2), {"f32[4,5]", "last size must be 5"});
  expect_error(build({x, weight, {DType::f32, {3}}}, 1), {"bias must be f32[4]"});
}

OpCase linear_swiglu_case(const std::string& name, const Sizes& x, int64_t out, bool bias) {
  OpCase result{
      .name = "linear_swiglu_" + name,
      .inputs = {real(x, -2, 2), real({out, x.back()}), real({out, x.back()})},
      .build =
          [=](const Inputs& v) {
            LinearOperands operands{v[0], {v[1], v[2]}};
            if (bias) operands.biases = {v[3], v[4]};
            return linear({.epilogue = ops::LinearEpilogue::kSwiglu}, operands);
          },
      .reference =
          [=](const Refs& v) {
            Ref y = linear_reference(bias ? Refs{v[0], v[1], v[3]} : Refs{v[0], v[1]}, Activation::kSilu);
            const Ref up =
                linear_reference(bias ? Refs{v[0], v[2], v[4]} : Refs{v[0], v[2]}, Activation::kNone);
            for (int64_t i = 0; i < y.numel(); ++i) y[i] *= up[i];
            return Refs{y};
          }};
  for (int i = 0; bias && i < 2; ++i) result.inputs.push_back(real({out}));
  return result;
}

TEST(SwigluEpilogue, Shapes) {
  check(linear_swiglu_case("matrix", {3, 5}, 7, false));
  check(linear_swiglu_case("biases", {2, 2, 5}, 7, true));
  check(linear_swiglu_case("empty", {0, 5}, 4, true));
  check(without_gradient(linear_swiglu_case("many_rows", {50, 12}, 90, true)));
  OpCase wide = linear_swiglu_case("wide", {1, 256}, 700, true);
  wide.inputs[0] = real({1, 256}, -0.2, 0.2);
  check(without_gradient(wide));
}

TEST(SwigluEpilogue, Errors) {
  const TensorType x{DType::f32, {2, 3}}, weight{DType::f32, {4, 3}}, bias{DType::f32, {4}};
  const auto build = [](const std::vector<TensorType>& types) {
    return [=] {
      infer_case(types, [](const Inputs& v) {
        return linear({.epilogue = ops::LinearEpilogue::kSwiglu},
                      {v[0], {v[1], v[2]}, {v.values.begin() + 3, v.values.end()}});
      });
    };
  };
  expect_error(build({x, weight, {DType::f32, {5, 3}}}), {"f32[4,3]", "f32[5,3]", "one type"});
  expect_error(build({x, weight, weight, bias}), {"2 weights and 1 biases"});
}

// The results of 16-bit operands are f32, and an f32 is added to them.
TEST(WideMatmul, Shapes) {
  for (const bool a : {false, true})
    for (const Sizes& size : {Sizes{5, 6, 7}, Sizes{1, 40, 16}, Sizes{64, 128, 32}, Sizes{5, 0, 7}}) {
      const ops::Matmul op{.transpose_a = a, .wide = true};
      check({.name = "matmul_wide",
             .inputs = {real(a ? Sizes{size[1], size[0]} : Sizes{size[0], size[1]}), real({size[1], size[2]}),
                        real({size[0], size[2]})},
             .build =
                 [=](const Inputs& v) {
                   const DType wide = is_low_precision(v[0].dtype()) ? DType::f32 : v[0].dtype();
                   return matmul(op, {v[0], v[1], cast(v[2], wide)});
                 },
             .reference =
                 [=](const Refs& v) {
                   Ref y = matmul_reference(v[0], v[1], a);
                   for (int64_t i = 0; i < y.numel(); ++i) y[i] += v[2][i];
                   return Refs{y};
                 },
             .gradient = false,
             .tolerance = 2e-5,
             .tolerance_low = 0.05});
    }
}

TEST(WideMatmul, KeepsWhat16BitsWouldRound) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor y =
        run_graph(
            {{"ones", Tensor::of<float>({1, 4097}, std::vector<float>(4097, 1))},
             {"more", Tensor::of<float>({1, 1}, {0.25f})}},
            [&](const Inputs& in) {
              const Value ones = cast(in[0], dtype);
              const ops::Matmul op{.transpose_b = true, .wide = true};
              return std::vector<std::pair<std::string, Value>>{{"y", matmul(op, {ones, ones, in[1]})[0]}};
            })
            .at("y");
    EXPECT_EQ(y.type().dtype, DType::f32);
    EXPECT_EQ(y.to_doubles()[0], 4097.25) << name_of(dtype);
  }
}

TEST(WideMatmul, Errors) {
  const TensorType low{DType::bf16, {2, 2}};
  const auto build = [](const ops::Matmul& op, std::vector<TensorType> types) {
    return [=] { infer_case(types, [&](const Inputs& v) { return matmul(op, v.values); }); };
  };
  expect_error(build({.wide = true}, {low, low, low}), {"addend must be f32[2,2]"});
  expect_error(build({.epilogue = ops::MatmulEpilogue::kBiasGrad, .wide = true}, {low, low}),
               {"no epilogue"});
}

constexpr ops::Matmul kBiasGrad{.transpose_a = true, .epilogue = ops::MatmulEpilogue::kBiasGrad};

OpCase weight_grad_case(const std::string& name, const Sizes& dy, const Sizes& x) {
  return with_terms({.name = "matmul_bias_grad_" + name,
                     .inputs = {real(dy), real(x)},
                     .build = [](const Inputs& v) { return matmul(kBiasGrad, v.values); },
                     .reference =
                         [](const Refs& v) {
                           const int64_t rows = v[0].dim(0), out = v[0].dim(1);
                           Ref sums = ref_zeros({out});
                           for (int64_t i = 0; i < rows * out; ++i) sums[i % out] += v[0][i];
                           return Refs{matmul_reference(v[0], v[1], true), sums};
                         },
                     .gradient = false});
}

TEST(BiasGradEpilogue, Shapes) {
  check(weight_grad_case("small", {6, 5}, {6, 7}));
  check(weight_grad_case("packs", {40, 24}, {40, 16}));
  check(weight_grad_case("one_row", {1, 33}, {1, 20}));
  check(weight_grad_case("one_column", {33, 1}, {33, 20}));
  OpCase tall = weight_grad_case("tall", {520, 40}, {520, 72});
  check(tall);
}

TEST(BiasGradEpilogue, EmptySizes) {
  check(weight_grad_case("no_rows", {0, 5}, {0, 7}));
  check(weight_grad_case("no_out", {6, 0}, {6, 7}));
  check(weight_grad_case("no_in", {6, 5}, {6, 0}));
}

TEST(BiasGradEpilogue, Errors) {
  const auto build = [](TensorType dy, TensorType x) {
    return [=] { infer_case({dy, x}, [](const Inputs& v) { return matmul(kBiasGrad, v.values); }); };
  };
  expect_error(build({DType::f32, {2, 3}}, {DType::f32, {3, 3}}), {"f32[2,3]", "f32[3,3]", "inner sizes"});
  expect_error(build({DType::f32, {2}}, {DType::f32, {2, 3}}), {"f32[2]", "two axes"});
  expect_error(build({DType::f32, {2, 3}}, {DType::bf16, {2, 3}}), {"f32 and bf16"});
}

TEST(BiasGradEpilogue, OfMatricesInAnyOrientation) {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      const ops::Matmul op{.transpose_a = a, .transpose_b = b, .epilogue = ops::MatmulEpilogue::kBiasGrad};
      check({.name = std::string("matmul_bias_grad_") + (a ? "t" : "n") + (b ? "t" : "n"),
             .inputs = {real(a ? Sizes{6, 5} : Sizes{5, 6}), real(b ? Sizes{7, 6} : Sizes{6, 7})},
             .build = [=](const Inputs& v) { return matmul(op, v.values); },
             .reference =
                 [=](const Refs& v) {
                   Ref sums = ref_zeros({5});
                   for (int64_t i = 0; i < 30; ++i) sums[a ? i % 5 : i / 6] += v[0][i];
                   return Refs{matmul_reference(v[0], v[1], a, b), sums};
                 },
             .gradient = false});
    }
}

// Attributes and inputs come from files, so any may be inconsistent.
TEST(Linear, FormsThatDoNotFit) {
  const TensorType x{DType::f32, {2, 3}}, weight{DType::f32, {4, 3}}, bias{DType::f32, {4}},
      norm{DType::f32, {3}};
  const auto fails = [](ops::Linear op, const std::vector<TensorType>& types,
                        const std::vector<std::string>& parts) {
    expect_error([&] { infer_types(*find_op("linear"), to_attributes(op), types); }, parts);
  };
  using P = ops::LinearPrologue;
  using E = ops::LinearEpilogue;
  fails({.weights = 0}, {x, weight}, {"1 or more", "0"});
  fails({.weights = -3}, {x, weight}, {"1 or more"});
  fails({.weights = int64_t{1} << 62}, {x, weight}, {"1 or more"});
  fails({.weights = 2}, {x, weight}, {"3 inputs, or 5", "got 2"});
  fails({.weights = 2}, {x, weight, weight, bias}, {"got 4"});
  fails({.has_addend = true}, {x, weight}, {"3 inputs", "got 2"});
  fails({.has_addend = true, .weights = 2}, {x, weight, weight, bias}, {"addend", "one weight"});
  fails({.prologue = P::kRmsNorm}, {x, norm}, {"3 inputs", "got 2"});
  fails({.weights = 9, .prologue = P::kRmsNorm}, {x, norm}, {"8 weights at most"});
  fails({.epilogue = E::kSwiglu}, {x, weight}, {"gate and up", "1 weights"});
  fails({.epilogue = E::kWithSwiglu}, {x, weight, bias}, {"one weight"});
  fails({.activation = Activation::kRelu, .epilogue = E::kWithSwiglu}, {x, weight}, {"no activation"});
  fails({.activation = Activation::kRelu, .weights = 2, .epilogue = E::kSwiglu}, {x, weight, weight},
        {"no activation"});
}

TEST(Matmul, FormsThatDoNotFit) {
  const TensorType a{DType::f32, {2, 3}}, b{DType::f32, {3, 4}}, c{DType::f32, {2, 8}};
  const auto fails = [](ops::Matmul op, const std::vector<TensorType>& types,
                        const std::vector<std::string>& parts) {
    expect_error([&] { infer_types(*find_op("matmul"), to_attributes(op), types); }, parts);
  };
  using E = ops::MatmulEpilogue;
  fails({.with_output = true}, {a, b}, {"with_output", "swiglu_grad"});
  fails({.epilogue = E::kBiasGrad}, {a, b, c}, {"two matrices", "3"});
  fails({.epilogue = E::kBiasGrad}, {{DType::f32, {5, 2, 3}}, b}, {"must be matrices"});
  fails({.epilogue = E::kSwigluGrad}, {a, b}, {"third input"});
  fails({.transpose_b = true, .epilogue = E::kSwigluGrad}, {a, {DType::f32, {4, 3}}, c}, {"none transposed"});
}

TEST(Linear, AddendErrors) {
  const TensorType x{DType::f32, {2, 3}}, weight{DType::f32, {4, 3}};
  const auto build = [=](TensorType addend, Activation activation) {
    return [=] {
      infer_case({x, weight, addend},
                 [=](const Inputs& v) { return Outputs{linear(v[0], v[1], {}, activation, v[2])}; });
    };
  };
  expect_error(build({DType::f32, {4}}, Activation::kNone), {"addend must be f32[2,4]", "f32[4]"});
  expect_error(build({DType::f32, {2, 4}}, Activation::kRelu), {"no activation", "relu"});
}

TEST(Linear, Errors) {
  const auto build = [](TensorType x, TensorType w, TensorType b) {
    return [=] { infer_case({x, w, b}, [](const Inputs& v) { return Outputs{linear(v[0], v[1], v[2])}; }); };
  };
  expect_error(build({DType::f32, {2, 3}}, {DType::f32, {5, 4}}, {DType::f32, {5}}),
               {"f32[2,3]", "f32[5,4]", "must be 4"});
  expect_error(build({DType::f32, {2, 3}}, {DType::f32, {5, 3}}, {DType::f32, {3}}),
               {"bias must be f32[5]", "f32[3]"});
  expect_error(build({DType::f32, {2, 3}}, {DType::f32, {3}}, {DType::f32, {3}}), {"[out, in]", "f32[3]"});
}

}  // namespace
}  // namespace genesis::testing
