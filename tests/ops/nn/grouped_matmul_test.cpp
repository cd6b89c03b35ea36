// Tests grouped products against loops: groups of every size, rows of no group, quantized weights, and offsets that cannot be.
#include "schema/ops/nn/grouped_matmul.h"

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Sizes {
  std::vector<double> offsets;
  std::vector<int64_t> rows;  // the leading axes of x
  int64_t n = 5, k = 7;
  bool transposed = true;

  int64_t groups() const { return std::ssize(offsets) - 1; }
  std::vector<int64_t> x() const {
    std::vector<int64_t> shape = rows;
    shape.push_back(k);
    return shape;
  }
};

// Returns the number of the group of a row; -1 if it has none.
int64_t group_of(const Ref& offsets, int64_t row) {
  for (int64_t g = 0; g + 1 < offsets.numel(); ++g)
    if (row >= offsets[g] && row < offsets[g + 1]) return g;
  return -1;
}

Ref products(const Sizes& s, const Refs& in) {
  Ref y = in[0];
  y.shape.back() = s.n;
  y.data.assign(static_cast<size_t>(in[0].numel() / s.k * s.n), 0);
  for (int64_t at = 0; at < y.numel(); ++at) {
    const int64_t row = at / s.n, j = at % s.n, g = group_of(in[2], row);
    for (int64_t p = 0; g >= 0 && p < s.k; ++p)
      y[at] += in[0][row * s.k + p] * in[1][g * s.n * s.k + (s.transposed ? j * s.k + p : p * s.n + j)];
  }
  return y;
}

OpCase case_of(const std::string& name, const Sizes& s) {
  return {.name = "grouped_matmul_" + name,
          .inputs = {real(s.x()),
                     real(s.transposed ? std::vector<int64_t>{s.groups(), s.n, s.k}
                                       : std::vector<int64_t>{s.groups(), s.k, s.n}),
                     integer_data({std::ssize(s.offsets)}, s.offsets)},
          .build = [s](const Inputs& x) { return Outputs{grouped_matmul(x[0], x[1], x[2], s.transposed)}; },
          .reference = [s](const Refs& x) { return Refs{products(s, x)}; }};
}

void check_groups(const std::string& name, const Sizes& sizes) { check(with_terms(case_of(name, sizes))); }

TEST(GroupedMatmul, GroupsOfEverySize) {
  check_groups("few", {.offsets = {0, 1, 1, 4}, .rows = {4}});
  check_groups("columns", {.offsets = {0, 2, 3}, .rows = {3}, .transposed = false});
  check_groups("one", {.offsets = {0, 3}, .rows = {3}, .n = 1, .k = 1});
  check_groups("axes", {.offsets = {0, 0, 5, 6}, .rows = {2, 3}, .n = 4, .k = 3});
  check_groups("no_groups_rows", {.offsets = {1, 2, 3}, .rows = {5}});
  check_groups("empty", {.offsets = {0, 0}, .rows = {0}});
}

// The sizes take several tiles, blocks of k and tasks.
TEST(GroupedMatmul, Large) {
  OpCase wide = case_of("large", {.offsets = {0, 130, 130, 131}, .rows = {131}, .n = 270, .k = 530});
  wide.directions = 2;
  check(with_terms(wide));
  OpCase columns = case_of("large_columns",
                           {.offsets = {0, 3, 120}, .rows = {120}, .n = 40, .k = 530, .transposed = false});
  columns.directions = 2;
  check(with_terms(columns));
  OpCase rows = case_of("rows", {.offsets = {0, 1, 14, 14, 24}, .rows = {24, 1}, .n = 130, .k = 300});
  rows.directions = 2;
  check(with_terms(rows));
}

// Sizes that tensor cores take: tiles of 128 rows and 256 columns in bf16, groups that end within a tile, half a tile or a slice of
// 64 rows, rows of no group, and more rows than a product of few rows has; short and long sums.
TEST(GroupedMatmul, TilesOfTensorCores) {
  for (const bool transposed : {true, false}) {
    OpCase sums =
        case_of(transposed ? "long_sums" : "long_sums_columns",
                {.offsets = {1, 130, 258}, .rows = {259}, .n = 8, .k = 1032, .transposed = transposed});
    sums.gradient = false;
    check(with_terms(sums));
    OpCase tiles = case_of(
        transposed ? "tiles" : "tiles_columns",
        {.offsets = {2, 5, 5, 69, 197, 260}, .rows = {261}, .n = 264, .k = 72, .transposed = transposed});
    tiles.directions = 2;
    check(with_terms(tiles));
  }
}

// Each gradient of a sum of squares contains the gradient op, whose own gradients are grouped products again.
TEST(GroupedMatmul, GradientOfTheGradientOp) {
  const std::vector<double> offsets = {0, 2, 2, 3};
  check({.name = "grouped_matmul_grad",
         .inputs = {real({4, 3}), real({4, 2}), integer_data({4}, offsets)},
         .build =
             [](const Inputs& x) {
               return Outputs{emit(ops::GroupedMatmulGrad{}, {x[0], x[1], x[2]})};
             },
         .reference =
             [](const Refs& x) {
               Ref y = ref_zeros({3, 3, 2});
               for (int64_t row = 0; row < 4; ++row)
                 if (const int64_t g = group_of(x[2], row); g >= 0)
                   for (int64_t at = 0; at < 6; ++at)
                     y[g * 6 + at] += x[0][row * 3 + at / 2] * x[1][row * 2 + at % 2];
               return Refs{y};
             }});
}

// Bytes hold the values of x exactly: multiples of 1/16 up to 127/16, which occurs in every block.
TEST(GroupedMatmul, QuantizedWeights) {
  constexpr int64_t kIn = 64, kOut = 13, kRows = 5;
  std::vector<double> rows, scales;
  for (int64_t i = 0; i < kRows * kIn; ++i)
    rows.push_back(i % 32 == 5 ? -127 / 16.0 : static_cast<double>(i * 37 % 255 - 127) / 16);
  for (int64_t i = 0; i < 3 * kOut * kIn / 32; ++i)
    scales.push_back(static_cast<double>(i * 7 % 23 - 9) / 4096);
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ4}) {
    const bool halves = has_four_bits(format);
    CaseInput x = real_data({kRows, kIn}, rows), scale = real_data({3, kOut, kIn / 32}, scales);
    x.differentiable = scale.differentiable = false;
    scale.keep_dtype = true;
    check({.name = halves ? "grouped_matmul_q4" : "grouped_matmul_q8",
           .inputs = {x,
                      halves ? integers({3, kOut, kIn / 2}, 0, 256, DType::u8)
                             : integers({3, kOut, kIn}, -127, 128, DType::i8),
                      scale, integer_data({4}, {0, 1, 1, 5})},
           .build =
               [format](const Inputs& in) {
                 const ops::GroupedMatmul op{.weight_format = format};
                 return Outputs{emit(op, {in[0], in[1], cast(in[2], DType::f16), in[3]})};
               },
           .reference =
               [halves](const Refs& in) {
                 Ref y = ref_zeros({kRows, kOut});
                 for (int64_t at = 0; at < y.numel(); ++at) {
                   const int64_t row = at / kOut, line = group_of(in[3], row) * kOut + at % kOut;
                   for (int64_t p = 0; p < kIn; ++p) {
                     const auto byte = static_cast<int>(
                         in[1][halves ? line * kIn / 2 + p / 32 * 16 + p % 16 : line * kIn + p]);
                     const int quant = !halves ? byte : (p % 32 < 16 ? byte & 15 : byte >> 4) - 8;
                     y[at] += in[0][row * kIn + p] * quant * in[2][line * (kIn / 32) + p / 32];
                   }
                 }
                 return Refs{y};
               },
           .gradient = false,
           .f64 = false});
  }
}

NamedTensors run_with(const std::vector<int64_t>& offsets) {
  return run_graph(
      {{"x", Tensor::of<float>({2, 2}, {1, 2, 3, 4})},
       {"w", Tensor::of<float>({2, 1, 2}, {1, 1, 1, 1})},
       {"offsets", Tensor::of<int64_t>({std::ssize(offsets)}, offsets)}},
      [](const Inputs& in) {
        return std::vector<std::pair<std::string, Value>>{{"y", grouped_matmul(in[0], in[1], in[2])}};
      });
}

TEST(GroupedMatmul, OffsetsThatCannotBe) {
  EXPECT_EQ(run_with({0, 1, 2}).at("y").to_doubles(), (std::vector<double>{3, 7}));
  expect_error([] { run_with({0, 1, 3}); }, {"3", "grouped_matmul"});
  expect_error([] { run_with({0, -1, 2}); }, {"-1", "grouped_matmul"});
  expect_error([] { run_with({0, 2, 1}); }, {"offsets of groups decrease", "grouped_matmul"});
  expect_error([] { run_with({0, 1}); }, {"offsets must have one number more", "2"});
}

TEST(GroupedMatmul, TypesThatDoNotFit) {
  const auto infer = [](const std::vector<TensorType>& types) {
    infer_case(types, [](const Inputs& in) { return Outputs{grouped_matmul(in[0], in[1], in[2])}; });
  };
  const TensorType offsets{DType::i64, {4}}, weights{DType::f32, {3, 5, 7}};
  infer({{DType::f32, {Dim::symbol("rows"), 7}}, weights, offsets});
  expect_error(
      [&] {
        infer({{DType::f32, {2, 6}}, weights, offsets});
      },
      {"does not fit weights", "[..., 7]"});
  expect_error([&] { infer({{DType::f32, {2, 7}}, {DType::f32, {5, 7}}, offsets}); }, {"three axes"});
  expect_error([&] { infer({{DType::f32, {2, 7}}, weights, {DType::i32, {4}}}); }, {"i64[groups + 1]"});
}

}  // namespace
}  // namespace genesis::testing
