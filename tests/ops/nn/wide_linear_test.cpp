// Tests linear with `wide`: f32 results of 16-bit operands. The numbers are small multiples of powers of two, so that
// sums in f32 are exact and a result rounded to 16 bits on the way would differ.
#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Setting {
  DType dtype = DType::bf16;
  int64_t rows = 1, in = 64, out = 40;
  bool has_norm = false, has_bias = false, has_addend = false;
};

// Returns multiples of 1/16 within [-1, 1], f32 in every variant of a case.
CaseInput sixteenths(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 37 + seed) % 33 - 16) / 16);
  CaseInput input = real_data(std::move(shape), std::move(values));
  input.keep_dtype = true;
  input.differentiable = false;
  return input;
}

// Returns rows whose squares have the mean 1, so that the norm before the product changes nothing.
CaseInput signs(std::vector<int64_t> shape) {
  CaseInput input = sixteenths(std::move(shape), 5);
  for (double& x : input.values) x = x < 0 ? -1 : 1;
  return input;
}

Refs reference_of(const Setting& s, const Refs& in) {
  Ref y = ref_zeros({s.rows, s.out});
  for (int64_t i = 0; i < y.numel(); ++i) {
    for (int64_t j = 0; j < s.in; ++j) y[i] += in[0][i / s.out * s.in + j] * in[1][i % s.out * s.in + j];
    if (s.has_bias) y[i] += in[2][i % s.out];
    if (s.has_addend) y[i] += in.back()[i];
  }
  return {y};
}

void check_product(const std::string& name, const Setting& s) {
  std::vector<CaseInput> inputs = {s.has_norm ? signs({s.rows, s.in}) : sixteenths({s.rows, s.in}, 3),
                                   sixteenths({s.out, s.in}, 11)};
  if (s.has_bias) inputs.push_back(sixteenths({s.out}, 7));
  if (s.has_addend) inputs.push_back(sixteenths({s.rows, s.out}, 9));
  if (s.has_norm) inputs.push_back(real_data({s.in}, std::vector<double>(static_cast<size_t>(s.in), 1)));
  check({.name = "wide_linear_" + name,
         .inputs = inputs,
         .build =
             [s](const Inputs& x) {
               const auto low = [&](size_t i) { return cast(x[i], s.dtype); };
               LinearOperands operands{.x = low(0), .weights = {low(1)}};
               if (s.has_bias) operands.biases = {low(2)};
               if (s.has_addend) operands.addend = cast(x.values.back(), DType::f32);
               if (s.has_norm) operands.norm = cast(x.values.back(), s.dtype);
               ops::Linear op{.eps = 0, .wide = true};
               if (s.has_norm) op.prologue = ops::LinearPrologue::kRmsNorm;
               const Outputs results = linear(op, operands);
               EXPECT_EQ(results[0].dtype(), DType::f32);
               return results;
             },
         .reference = [s](const Refs& in) { return reference_of(s, in); },
         .gradient = false,
         .low_precision = false,
         .f64 = false});
}

TEST(WideLinear, RoundsNothing) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int64_t rows : {1, 2, 3, 4, 5, 12, 33})
      for (const int64_t in : {64, 72, 896}) {
        const std::string name =
            std::string(name_of(dtype)) + "_" + std::to_string(rows) + "_" + std::to_string(in);
        check_product(name, {.dtype = dtype, .rows = rows, .in = in});
        check_product(name + "_bias", {.dtype = dtype, .rows = rows, .in = in, .has_bias = true});
        check_product(name + "_addend", {.dtype = dtype, .rows = rows, .in = in, .has_addend = true});
      }
}

TEST(WideLinear, TakesANorm) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int64_t rows : {1, 6})
      check_product("norm", {.dtype = dtype, .rows = rows, .in = 256, .has_norm = true});
}

// The q8 weights are integers, and the rounding of x to bytes is exact.
TEST(WideLinear, ReadsQuantizedWeights) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int64_t rows : {1, 4, 70}) {
      const int64_t in = 64, out = 12;
      CaseInput quants = integers({out, in}, -7, 8, DType::i8);
      CaseInput scales =
          real_data({out, in / 32}, std::vector<double>(static_cast<size_t>(out * in / 32), 0.25));
      scales.keep_dtype = true;
      CaseInput x = sixteenths({rows, in}, 1);
      for (size_t i = 0; i < x.values.size(); ++i)
        x.values[i] = i % 32 == 0 ? 127 : static_cast<double>(static_cast<int64_t>(i * 29 % 255) - 127);
      check({.name = "wide_quantized_linear",
             .inputs = {x, quants, scales},
             .build =
                 [=](const Inputs& v) {
                   return linear(
                       {.weight_format = WeightFormat::kQ8, .wide = true},
                       {.x = cast(v[0], dtype), .weights = {v[1]}, .scales = {cast(v[2], DType::f16)}});
                 },
             .reference =
                 [=](const Refs& v) {
                   Ref y = ref_zeros({rows, out});
                   for (int64_t i = 0; i < y.numel(); ++i)
                     for (int64_t j = 0; j < in; ++j)
                       y[i] += 0.25 * v[0][i / out * in + j] * v[1][i % out * in + j];
                   return Refs{y};
                 },
             .gradient = false,
             .low_precision = false,
             .f64 = false});
    }
}

// With 32-bit and 64-bit operands it is a linear like any other, including gradients.
TEST(WideLinear, HasTheGradientsOfALinear) {
  check({.name = "wide_linear",
         .inputs = {real({3, 8}), real({5, 8}), real({5})},
         .build =
             [](const Inputs& x) {
               return linear({.wide = true}, {x[0], {x[1]}, {x[2]}});
             },
         .reference =
             [](const Refs& in) {
               Ref y = ref_zeros({3, 5});
               for (int64_t i = 0; i < 15; ++i) {
                 y[i] = in[2][i % 5];
                 for (int64_t j = 0; j < 8; ++j) y[i] += in[0][i / 5 * 8 + j] * in[1][i % 5 * 8 + j];
               }
               return Refs{y};
             }});
}

TEST(WideLinear, IsOneProductWithoutAnActivation) {
  const std::vector<TensorType> types = {{DType::bf16, {2, 8}}, {DType::bf16, {5, 8}}};
  EXPECT_EQ((ops::Linear{.wide = true}.infer(types)[0].to_string()), "f32[2,5]");
  expect_error([&] { ops::Linear{.activation = Activation::kRelu, .wide = true}.infer(types); },
               {"wide", "activation"});
  const std::vector<TensorType> low_addend = {types[0], types[1], {DType::bf16, {2, 5}}};
  expect_error([&] { ops::Linear{.has_addend = true, .wide = true}.infer(low_addend); }, {"addend"});
}

}  // namespace
}  // namespace genesis::testing
