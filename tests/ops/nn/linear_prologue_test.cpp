// Tests linear of a norm against its formula. On a GPU one row uses the kernel that computes both, and more rows use
// the decomposed form.
#include <cmath>

#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Setting {
  std::vector<int64_t> x = {1, 1, 64};
  std::vector<int64_t> out = {5};
  double eps = 1e-6;
  bool has_bias = false, swiglu = false;
  Activation activation = Activation::kNone;

  ops::Linear op() const {
    return {.activation = activation,
            .prologue = ops::LinearPrologue::kRmsNorm,
            .eps = eps,
            .epilogue = swiglu ? ops::LinearEpilogue::kSwiglu : ops::LinearEpilogue::kNone};
  }
};

Ref normalized(const Setting& s, const Ref& x, const Ref& weight) {
  Ref y = x;
  const int64_t n = s.x.back();
  for (int64_t row = 0; row < x.numel() / n; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += x[row * n + i] * x[row * n + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + s.eps);
    for (int64_t i = 0; i < n; ++i) y[row * n + i] *= scale * weight[i];
  }
  return y;
}

Ref layer(const Ref& x, const Ref& weight, const Ref* bias) {
  const int64_t n = weight.dim(0), k = weight.dim(1), rows = x.numel() / k;
  Ref y = ref_zeros({rows, n});
  for (int64_t i = 0; i < rows * n; ++i) {
    for (int64_t j = 0; j < k; ++j) y[i] += x[i / n * k + j] * weight[i % n * k + j];
    if (bias) y[i] += (*bias)[i % n];
  }
  return y;
}

Refs reference_of(const Setting& s, const Refs& in) {
  const Ref x = normalized(s, in[0], in[1]);
  Refs results;
  for (size_t i = 0; i < s.out.size(); ++i) {
    results.push_back(layer(x, in[2 + i], s.has_bias ? &in[2 + s.out.size() + i] : nullptr));
    if (s.activation == Activation::kRelu)
      for (double& y : results.back().data) y = std::max(y, 0.0);
  }
  if (s.swiglu) {
    for (int64_t i = 0; i < results[0].numel(); ++i)
      results[0][i] *= results[1][i] / (1 + std::exp(-results[0][i]));
    results.pop_back();
  }
  for (Ref& y : results) {
    std::vector<int64_t> shape = s.x;
    shape.back() = y.dim(1);
    y.shape = shape;
  }
  return results;
}

void check_layers(const std::string& name, const Setting& s) {
  const double width = 1 / std::sqrt(static_cast<double>(s.x.back()));
  std::vector<CaseInput> inputs = {constant_real(s.x), constant_real({s.x.back()}, 0.5, 1.5)};
  for (int64_t n : s.out) inputs.push_back(constant_real({n, s.x.back()}, -width, width));
  for (int64_t n : s.out)
    if (s.has_bias) inputs.push_back(constant_real({n}));
  OpCase one = {.name = "linear_of_norm_" + name,
                .inputs = inputs,
                .build =
                    [=](const Inputs& x) {
                      const auto weights = x.values.begin() + 2,
                                 biases = weights + static_cast<std::ptrdiff_t>(s.out.size());
                      return linear(s.op(), {x[0], {weights, biases}, {biases, x.values.end()}, x[1]});
                    },
                .reference = [=](const Refs& x) { return reference_of(s, x); },
                .gradient = false};
  check(s.swiglu ? one : with_terms(one));
}

TEST(LinearOfNorm, OneLayer) {
  check_layers("one", {});
  check_layers("bias", {.has_bias = true, .activation = Activation::kRelu});
  check_layers("vector", {.x = {64}, .out = {9}});
  check_layers("large_eps", {.eps = 0.5});
  check_layers("rows", {.x = {3, 64}, .out = {7}});
  check_layers("many_rows", {.x = {2, 10, 64}, .out = {7}});
  check_layers("odd", {.x = {1, 13}, .out = {3}});
}

TEST(LinearOfNorm, Merged) {
  check_layers("three", {.x = {1, 1, 128}, .out = {33, 5, 16}});
  check_layers("three_biases", {.x = {1, 1, 128}, .out = {33, 5, 16}, .has_bias = true});
}

TEST(LinearOfNorm, Swiglu) {
  check_layers("swiglu", {.x = {1, 1, 96}, .out = {37, 37}, .swiglu = true});
  check_layers("swiglu_biases", {.x = {1, 1, 96}, .out = {37, 37}, .has_bias = true, .swiglu = true});
  check_layers("swiglu_rows", {.x = {1, 4, 96}, .out = {8, 8}, .swiglu = true});
}

// Covers rows too long for a warp to hold at once, and rows that several warps share.
TEST(LinearOfNorm, LongRows) {
  check_layers("896", {.x = {1, 896}, .out = {50}});
  check_layers("split", {.x = {1, 1, 2048}, .out = {30, 9}});
  check_layers("split_swiglu", {.x = {1, 2056}, .out = {11, 11}, .swiglu = true});
  check_layers("more_than_fit_a_chip", {.x = {1, 2048}, .out = {2001, 250}});
}

TEST(LinearOfNorm, BadInputIsNamed) {
  const TensorType x{DType::f32, {2, 3}}, g{DType::f32, {3}}, w{DType::f32, {4, 3}}, b{DType::f32, {4}};
  const auto fails = [](const std::vector<TensorType>& types, const Setting& s,
                        const std::vector<std::string>& parts) {
    expect_error(
        [&] {
          infer_case(types, [&](const Inputs& in) {
            return linear(s.op(), {in[0], {in.values.begin() + 2, in.values.end()}, {}, in[1]});
          });
        },
        parts);
  };
  fails({x, b, w}, {}, {"weight"});
  fails({x, g, {DType::f32, {4, 2}}}, {}, {"does not fit"});
  fails({x, g, w}, {.swiglu = true}, {"swiglu", "gate and up"});
}

}  // namespace
}  // namespace genesis::testing
