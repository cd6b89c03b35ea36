// Tests linear with q8, q4 and q4m weights against sums in double precision, in every form, by the kernels that read such
// weights and by those that dequantize them first. Unless stated otherwise, blocks of bytes hold the values of x
// exactly.
#include "schema/encoding/weight_format.h"

#include <cmath>

#include "schema/encoding/q4m.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Setting {
  std::string name;
  WeightFormat format = WeightFormat::kQ8;
  int64_t rows = 1, in = 96;
  std::vector<int64_t> out = {13};
  bool has_bias = false, has_addend = false, has_norm = false, swiglu = false;
  Activation activation = Activation::kNone;

  bool has_zeros() const { return format == WeightFormat::kQ4m; }
  ops::Linear op() const {
    return {.activation = activation,
            .prologue = has_norm ? ops::LinearPrologue::kRmsNorm : ops::LinearPrologue::kNone,
            .epilogue = swiglu ? ops::LinearEpilogue::kSwiglu : ops::LinearEpilogue::kNone,
            .weight_format = format};
  }
};

// Returns multiples of 1/16 up to 127/16, which occurs in every block.
CaseInput exact_rows(int64_t rows, int64_t in) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * in; ++i)
    values.push_back(i % 32 == 5 ? -127 / 16.0 : static_cast<double>((i * 37 + i / 32) % 255 - 127) / 16);
  CaseInput input = real_data({rows, in}, values);
  input.differentiable = false;
  return input;
}

// Returns the 16 bits of q4m blocks, with scales from 2^-9 to 1/137 and some zeros.
CaseInput q4m_words(int64_t out, int64_t in) {
  std::vector<double> words;
  for (int64_t i = 0; i < out * in / 32; ++i) {
    const int64_t scale = i * 7 % 23 == 9 ? 0 : (14 << 4) + i * 7 % 31;
    words.push_back(static_cast<double>(scale << 7 | i * 13 % 128));
  }
  return integer_data({out, in / 32}, words, DType::i16);
}

// Returns numbers that f16 can represent, of both signs, including zero; for q4m the 16 bits of blocks.
CaseInput scales(const Setting& s, int64_t out, int64_t in) {
  if (s.has_zeros()) return q4m_words(out, in);
  std::vector<double> values;
  for (int64_t i = 0; i < out * in / 32; ++i) values.push_back(static_cast<double>(i * 7 % 23 - 9) / 4096);
  CaseInput input = real_data({out, in / 32}, values);
  input.keep_dtype = true;
  input.differentiable = false;
  return input;
}

CaseInput quants(const Setting& s, int64_t out) {
  if (has_four_bits(s.format)) return integers({out, s.in / 2}, 0, 256, DType::u8);
  return integers({out, s.in}, -127, 128, DType::i8);
}

double weight_at(const Setting& s, const Ref& quants, const Ref& scales, int64_t row, int64_t k) {
  const double of_block = scales[row * (s.in / 32) + k / 32];
  if (!has_four_bits(s.format)) return quants[row * s.in + k] * of_block;
  const auto byte = static_cast<int>(quants[row * s.in / 2 + k / 32 * 16 + k % 16]);
  const int bits = k % 32 < 16 ? byte & 15 : byte >> 4;
  if (!s.has_zeros()) return (bits - 8) * of_block;
  return Q4mGrid(static_cast<uint16_t>(static_cast<int16_t>(of_block))).value(static_cast<float>(bits));
}

Ref normalized(const Setting& s, const Ref& x, const Ref& norm) {
  Ref y = x;
  for (int64_t row = 0; row < s.rows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < s.in; ++i) squares += x[row * s.in + i] * x[row * s.in + i];
    const double by = 1 / std::sqrt(squares / static_cast<double>(s.in) + 1e-6);
    for (int64_t i = 0; i < s.in; ++i) y[row * s.in + i] *= by * norm[i];
  }
  return y;
}

Refs sums_of(const Setting& s, const Refs& in) {
  const size_t count = s.out.size(), first = s.has_norm ? 2 : 1;
  const Ref x = s.has_norm ? normalized(s, in[0], in[1]) : in[0];
  Refs results;
  for (size_t i = 0; i < count; ++i) {
    Ref y = ref_zeros({s.rows, s.out[i]});
    const Ref &weight = in[first + i], &scale = in[first + count + i];
    for (int64_t at = 0; at < y.numel(); ++at) {
      const int64_t row = at / s.out[i], column = at % s.out[i];
      for (int64_t k = 0; k < s.in; ++k) y[at] += x[row * s.in + k] * weight_at(s, weight, scale, column, k);
      if (s.has_bias) y[at] += in[first + 2 * count + i][column];
      if (s.activation == Activation::kRelu) y[at] = std::max(y[at], 0.0);
      if (s.has_addend) y[at] += in.back()[at];
    }
    results.push_back(y);
  }
  return results;
}

double silu_of(double x) { return x / (1 + std::exp(-x)); }

Refs reference_of(const Setting& s, const Refs& in) {
  Refs sums = sums_of(s, in);
  if (!s.swiglu) return sums;
  for (int64_t i = 0; i < sums[0].numel(); ++i) sums[0][i] = silu_of(sums[0][i]) * sums[1][i];
  return {sums[0]};
}

// Returns the terms of silu(gate) * up, whose factors have these terms and sums. The derivative of silu is below 1.1.
Refs swiglu_terms(const Refs& terms, const Refs& sums) {
  Ref y = sums[0];
  for (int64_t i = 0; i < y.numel(); ++i)
    y[i] = 1.1 * terms[0][i] * std::abs(sums[1][i]) + std::abs(silu_of(sums[0][i])) * terms[1][i];
  return {y};
}

// Returns the sums of absolute products, the bias and the addend.
Refs terms_of(const Setting& s, const Refs& in) {
  const size_t count = s.out.size();
  Refs results;
  for (size_t i = 0; i < count; ++i) {
    Ref y = ref_zeros({s.rows, s.out[i]});
    const Ref &weight = in[1 + i], &scale = in[1 + count + i];
    for (int64_t at = 0; at < y.numel(); ++at) {
      const int64_t row = at / s.out[i], column = at % s.out[i];
      for (int64_t k = 0; k < s.in; ++k)
        y[at] += std::abs(in[0][row * s.in + k] * weight_at(s, weight, scale, column, k));
      if (s.has_bias) y[at] += std::abs(in[1 + 2 * count + i][column]);
      if (s.has_addend) y[at] += std::abs(in.back()[at]);
    }
    results.push_back(y);
  }
  return s.swiglu ? swiglu_terms(results, sums_of(s, in)) : results;
}

Outputs build(const Setting& s, const Inputs& x) {
  const size_t count = s.out.size(), first = s.has_norm ? 2 : 1;
  LinearOperands operands{.x = x[0], .weights = {}};
  if (s.has_norm) operands.norm = x[1];
  for (size_t i = 0; i < count; ++i) operands.weights.push_back(x[first + i]);
  for (size_t i = 0; i < count; ++i)
    operands.scales.push_back(s.has_zeros() ? x[first + count + i] : cast(x[first + count + i], DType::f16));
  for (size_t i = 0; i < count && s.has_bias; ++i) operands.biases.push_back(x[first + 2 * count + i]);
  if (s.has_addend) operands.addend = x.values.back();
  return linear(s.op(), operands);
}

OpCase case_of(const Setting& s) {
  std::vector<CaseInput> inputs = {exact_rows(s.rows, s.in)};
  if (s.has_norm) inputs.push_back(constant_real({s.in}, 0.5, 1.5));
  for (const int64_t out : s.out) inputs.push_back(quants(s, out));
  for (const int64_t out : s.out) inputs.push_back(scales(s, out, s.in));
  for (const int64_t out : s.out)
    if (s.has_bias) inputs.push_back(constant_real({out}));
  if (s.has_addend) inputs.push_back(constant_real({s.rows, s.out[0]}));
  // After a norm x is no multiple of anything: the error is half a step of a byte, summed up. With 16-bit x, kernels
  // that dequantize first also round the weights, and x is as large as 8.
  OpCase one = {.name = s.name,
                .inputs = inputs,
                .build = [s](const Inputs& x) { return build(s, x); },
                .reference = [s](const Refs& in) { return reference_of(s, in); },
                .gradient = false,
                .f64 = false,
                .tolerance = s.has_norm ? 0.05 : 4e-6,
                .tolerance_low = 0.1};
  if (!s.has_norm) one.terms = [s](const Refs& in) { return terms_of(s, in); };
  return one;
}

class QuantizedLinear : public ::testing::TestWithParam<WeightFormat> {
 protected:
  Setting setting(std::string name) const { return {.name = std::move(name), .format = GetParam()}; }
};

TEST_P(QuantizedLinear, OfRowsAndSizes) {
  for (const int64_t rows : {1, 2, 3, 4, 7, 8, 13, 63, 64, 65, 130}) {
    Setting s = setting("rows_" + std::to_string(rows));
    s.rows = rows;
    check(case_of(s));
  }
  for (const int64_t in : {32, 64, 224, 256, 288, 1120}) {
    Setting s = setting("in_" + std::to_string(in));
    s.in = in;
    s.rows = 3;
    s.out = {1};
    check(case_of(s));
    s.out = {205};
    check(case_of(s));
  }
}

// Covers rows that a GPU can copy directly: whole rows, with the scales of one row or of several, and rows in chunks.
TEST_P(QuantizedLinear, OfRowsInPieces) {
  for (const int64_t in : {128, 512, 896, 2304, 4864})
    for (const int64_t rows : {1, 2, 4, 8}) {
      Setting s = setting("pieces_" + std::to_string(in));
      s.in = in;
      s.rows = rows;
      s.out = {206};
      check(case_of(s));
    }
  Setting s = setting("pieces_of_several");
  s.in = 2304;
  s.out = {36, 7, 9};
  check(case_of(s));
  s.swiglu = true;
  s.out = {54, 54};
  check(case_of(s));
  s.has_norm = true;
  s.in = 256;
  check(case_of(s));
}

TEST_P(QuantizedLinear, WithWhatGoesWithOneWeight) {
  for (const int64_t rows : {1, 5, 70}) {
    Setting s = setting("bias_relu");
    s.rows = rows;
    s.has_bias = true;
    s.activation = Activation::kRelu;
    check(case_of(s));
    s.name = "bias_addend";
    s.activation = Activation::kNone;
    s.has_addend = true;
    check(case_of(s));
  }
}

TEST_P(QuantizedLinear, OfSeveralWeights) {
  for (const int64_t rows : {1, 5, 70}) {
    Setting s = setting("three");
    s.rows = rows;
    s.out = {24, 7, 9};
    check(case_of(s));
    s.has_bias = true;
    check(case_of(s));
    s.name = "swiglu";
    s.out = {50, 50};
    s.swiglu = true;
    check(case_of(s));
    s.name = "norm_swiglu";
    s.has_norm = true;
    check(case_of(s));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedLinear,
                         ::testing::Values(WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m));

TEST(QuantizedLinearShapes, AreChecked) {
  const TensorType x{DType::f32, {2, 64}}, q8{DType::i8, {5, 64}}, q4{DType::u8, {5, 32}},
      scale{DType::f16, {5, 2}};
  const auto infer = [](WeightFormat format, const std::vector<TensorType>& types) {
    return ops::Linear{.weight_format = format}.infer(types);
  };
  EXPECT_EQ(infer(WeightFormat::kQ8, {x, q8, scale})[0].to_string(), "f32[2,5]");
  EXPECT_EQ(infer(WeightFormat::kQ4, {x, q4, scale})[0].to_string(), "f32[2,5]");
  expect_error([&] { infer(WeightFormat::kQ4, {x, q8, scale}); }, {"quants of u8"});
  expect_error([&] { infer(WeightFormat::kQ8, {x, q8}); }, {"takes 3 inputs"});
  expect_error([&] { infer(WeightFormat::kQ8, {x, q8, {DType::f16, {5, 3}}}); }, {"are of quants [5,96]"});
  expect_error(
      [&] {
        infer(WeightFormat::kQ8, {{DType::f32, {2, 96}}, q8, scale});
      },
      {"does not fit weight"});
  expect_error([&] { infer(WeightFormat::kQ8, {{DType::f64, {2, 64}}, q8, scale}); }, {"f32, bf16 or f16"});
}

// NaN and infinity in x reach the result of their row, and no others.
TEST(QuantizedLinearValues, ThatAreNoNumbersReachTheResult) {
  std::vector<float> x(3 * 64, 1.0f);
  x[64 + 40] = std::numeric_limits<float>::infinity();
  x[128] = std::numeric_limits<float>::quiet_NaN();
  const auto results =
      run_graph({{"x", Tensor::of<float>({3, 64}, x)},
                 {"q", Tensor::of<int8_t>({2, 64}, std::vector<int8_t>(128, 3))},
                 {"s", Tensor::of<f16>({2, 2}, std::vector<f16>(4, f16(1.0f)))}},
                [](const Inputs& in) -> std::vector<std::pair<std::string, Value>> {
                  return {{"y", linear({.weight_format = WeightFormat::kQ8},
                                       {.x = in[0], .weights = {in[1]}, .scales = {in[2]}})[0]}};
                });
  const auto y = results.at("y").to_doubles();
  EXPECT_EQ(y[0], 192);
  EXPECT_FALSE(std::isfinite(y[2]));
  EXPECT_TRUE(std::isnan(y[4]));
}

}  // namespace
}  // namespace genesis::testing
