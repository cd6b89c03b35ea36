// Tests linear with as many rows as a batch of texts, in every form that decoding uses, against plain loops. On a
// GPU, 2 to 32 rows in bf16, and 5 to 32 in f16, use kernels for few rows: with two to five tiles of weights per
// warp, with k shared among the blocks of a cluster, and with a norm for up to eight rows in bf16. Other numbers of
// rows use other kernels.
#include <cmath>

#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Setting {
  std::vector<int64_t> x = {32, 64};
  std::vector<int64_t> out = {40};
  bool has_bias = false, has_addend = false, has_norm = false, swiglu = false;
  Activation activation = Activation::kNone;

  ops::Linear op() const {
    return {.activation = activation,
            .prologue = has_norm ? ops::LinearPrologue::kRmsNorm : ops::LinearPrologue::kNone,
            .epilogue = swiglu ? ops::LinearEpilogue::kSwiglu : ops::LinearEpilogue::kNone};
  }
  size_t first_weight() const { return has_norm ? 2 : 1; }
  size_t first_bias() const { return first_weight() + out.size(); }
  std::vector<int64_t> result(int64_t n) const {
    std::vector<int64_t> shape = x;
    shape.back() = n;
    return shape;
  }
};

Ref x_of(const Setting& s, const Refs& in) {
  Ref x = in[0];
  const int64_t k = s.x.back();
  for (int64_t row = 0; s.has_norm && row < x.numel() / k; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < k; ++i) squares += x[row * k + i] * x[row * k + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(k) + 1e-6);
    for (int64_t i = 0; i < k; ++i) x[row * k + i] *= scale * in[1][i];
  }
  return x;
}

Ref product(const Setting& s, const Ref& x, const Ref& weight, const Ref* bias) {
  const int64_t n = weight.dim(0), k = weight.dim(1), rows = x.numel() / k;
  Ref y = ref_zeros(s.result(n));
  for (int64_t i = 0; i < rows * n; ++i) {
    const double *a = &x.data[static_cast<size_t>(i / n * k)],
                 *b = &weight.data[static_cast<size_t>(i % n * k)];
    for (int64_t j = 0; j < k; ++j) y[i] += a[j] * b[j];
    if (bias) y[i] += (*bias)[i % n];
    if (s.activation == Activation::kRelu) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

Refs reference_of(const Setting& s, const Refs& in) {
  const Ref x = x_of(s, in);
  Refs results;
  for (size_t i = 0; i < s.out.size(); ++i)
    results.push_back(
        product(s, x, in[s.first_weight() + i], s.has_bias ? &in[s.first_bias() + i] : nullptr));
  if (s.swiglu) {
    for (int64_t i = 0; i < results[0].numel(); ++i)
      results[0][i] *= results[1][i] / (1 + std::exp(-results[0][i]));
    results.pop_back();
  }
  for (int64_t i = 0; s.has_addend && i < results[0].numel(); ++i) results[0][i] += in.back()[i];
  return results;
}

void check_rows(const std::string& name, const Setting& s) {
  const double width = 1 / std::sqrt(static_cast<double>(s.x.back()));
  std::vector<CaseInput> inputs = {constant_real(s.x)};
  if (s.has_norm) inputs.push_back(constant_real({s.x.back()}, 0.5, 1.5));
  for (int64_t n : s.out) inputs.push_back(constant_real({n, s.x.back()}, -width, width));
  for (int64_t n : s.out)
    if (s.has_bias) inputs.push_back(constant_real({n}));
  if (s.has_addend) inputs.push_back(constant_real(s.result(s.out[0])));
  OpCase one = {
      .name = "skinny_gemm_" + name,
      .inputs = inputs,
      .build =
          [=](const Inputs& x) {
            const auto at = [&](size_t i) { return x.values.begin() + static_cast<std::ptrdiff_t>(i); };
            LinearOperands operands{.x = x[0], .weights = {at(s.first_weight()), at(s.first_bias())}};
            if (s.has_bias) operands.biases = {at(s.first_bias()), at(s.first_bias() + s.out.size())};
            if (s.has_norm) operands.norm = x[1];
            if (s.has_addend) operands.addend = x.values.back();
            return linear(s.op(), operands);
          },
      .reference = [=](const Refs& x) { return reference_of(s, x); },
      .gradient = false};
  check(s.swiglu ? one : with_terms(one));
}

TEST(SkinnyGemm, AnyRows) {
  for (int64_t rows : {1, 2, 8, 9, 10, 15, 16, 17, 24, 31, 32, 33, 40})
    check_rows("rows_" + std::to_string(rows), {.x = {rows, 64}, .out = {33}, .has_bias = true});
  for (int64_t rows : {3, 5, 7})
    check_rows("few_" + std::to_string(rows), {.x = {rows, 72}, .out = {45, 7}, .has_bias = true});
  check_rows("texts", {.x = {20, 1, 64}, .out = {16}});
}

TEST(SkinnyGemm, AnyWidth) {
  for (int64_t k : {8, 24, 32, 40, 256, 264, 896, 1000})
    check_rows("width_" + std::to_string(k), {.x = {19, k}, .out = {17}});
  check_rows("no_packs", {.x = {19, 13}, .out = {5}});
}

TEST(SkinnyGemm, AnyLength) {
  for (int64_t n : {1, 7, 8, 15, 16, 17, 130})
    check_rows("length_" + std::to_string(n), {.x = {32, 64}, .out = {n}, .has_addend = true});
}

TEST(SkinnyGemm, ManyTiles) {
  for (int64_t rows : {12, 29})
    for (int64_t n : {4096, 4111, 5001, 8192, 8265})
      check_rows("tiles_" + std::to_string(n), {.x = {rows, 40}, .out = {n}, .has_bias = true});
}

TEST(SkinnyGemm, SharedWidth) {
  for (int64_t k : {1024, 2048, 4096, 4864, 8200})
    check_rows("shared_" + std::to_string(k),
               {.x = {k == 4864 ? 11 : 27, k}, .out = {37}, .has_bias = true, .has_addend = true});
  check_rows("shared_few", {.x = {4, 4864}, .out = {100}, .has_addend = true});
  check_rows("shared_norm", {.x = {27, 4104}, .out = {37, 9}, .has_bias = true, .has_norm = true});
}

TEST(SkinnyGemm, Merged) {
  check_rows("three", {.x = {32, 128}, .out = {33, 5, 16}});
  check_rows("three_biases", {.x = {18, 128}, .out = {33, 5, 16}, .has_bias = true});
  check_rows("three_after_norm", {.x = {32, 1, 128}, .out = {33, 5, 16}, .has_bias = true, .has_norm = true});
  check_rows("three_of_few_after_norm",
             {.x = {7, 1, 136}, .out = {33, 5, 16}, .has_bias = true, .has_norm = true});
  check_rows("merged_relu", {.x = {18, 128}, .out = {33, 5}, .activation = Activation::kRelu});
}

TEST(SkinnyGemm, Swiglu) {
  check_rows("swiglu", {.x = {32, 96}, .out = {37, 37}, .swiglu = true});
  check_rows("swiglu_biases", {.x = {9, 96}, .out = {8, 8}, .has_bias = true, .swiglu = true});
  check_rows("swiglu_after_norm", {.x = {21, 96}, .out = {40, 40}, .has_norm = true, .swiglu = true});
  check_rows("swiglu_of_few_after_norm",
             {.x = {6, 96}, .out = {2600, 2600}, .has_norm = true, .swiglu = true});
  check_rows("swiglu_tiles", {.x = {30, 48}, .out = {4100, 4100}, .has_norm = true, .swiglu = true});
  for (int64_t rows : {12, 16, 17})
    check_rows("swiglu_many_tiles", {.x = {rows, 40}, .out = {4097, 4097}, .swiglu = true});
  check_rows("swiglu_shared_16", {.x = {16, 2056}, .out = {21, 21}, .has_bias = true, .swiglu = true});
  check_rows("swiglu_shared", {.x = {30, 2048}, .out = {19, 19}, .has_norm = true, .swiglu = true});
}

// On a Hopper chip, 33 to 128 rows in bf16, and up to 256 with a swiglu, are multiplied 64 to a warpgroup, by blocks that
// share rows of x and by blocks that share weights.
TEST(SkinnyGemm, RowsInTiles) {
  for (int64_t rows : {33, 64, 65, 128, 129})
    check_rows("tiled_" + std::to_string(rows),
               {.x = {rows, 72}, .out = {48}, .has_bias = true, .has_addend = true});
  for (int64_t k : {8, 64, 520, 896, 1608})
    check_rows("tiled_width_" + std::to_string(k),
               {.x = {k == 896 ? 100 : 36, k}, .out = {72}, .has_addend = true});
  check_rows("tiled_long", {.x = {34, 3000}, .out = {64}, .has_bias = true, .has_addend = true});
  check_rows("tiled_three", {.x = {72, 1, 136}, .out = {48, 8, 16}, .has_bias = true});
  check_rows("tiled_relu", {.x = {36, 40}, .out = {24}, .activation = Activation::kRelu});
  for (int64_t rows : {130, 200, 256, 257})
    check_rows("tiled_swiglu_" + std::to_string(rows),
               {.x = {rows, 72}, .out = {104, 104}, .has_bias = true, .swiglu = true});
  check_rows("tiled_swiglu_blocks", {.x = {66, 40}, .out = {1000, 1000}, .swiglu = true});
  check_rows("tiled_swiglu_one", {.x = {34, 328}, .out = {40, 40}, .swiglu = true});
}

TEST(SkinnyGemm, AfterNorm) {
  for (int64_t rows : {2, 4, 5, 8, 9, 16, 25, 32, 33})
    check_rows("norm_" + std::to_string(rows), {.x = {rows, 104}, .out = {50}, .has_norm = true});
  check_rows("norm_of_few_896", {.x = {8, 896}, .out = {50}, .has_bias = true, .has_norm = true});
  check_rows("norm_896", {.x = {32, 896}, .out = {50}, .has_bias = true, .has_norm = true});
}

}  // namespace
}  // namespace genesis::testing
