// Tests rope against sin and cos in long double, at near and far positions, in both conventions.
#include <cmath>

#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/slice.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Setting {
  std::vector<int64_t> shape;      // sizes of x
  std::vector<int64_t> positions;  // sizes of the positions
  double theta = 10000;
  RopeKind kind = RopeKind::kHalf;
  int64_t rotary_size = 0;
  std::vector<double> at = {};  // the positions; empty: drawn
  int64_t heads = 0;
  std::vector<int64_t> frequencies = {};  // sizes of the frequencies; empty: computed from theta
};

// Returns frequencies that follow no usual formula.
Ref frequencies_of(const Setting& s) {
  Ref frequencies = ref_zeros(s.frequencies);
  for (int64_t i = 0; i < frequencies.numel(); ++i) frequencies[i] = 1.5 / (1 + static_cast<double>(i * i));
  return frequencies;
}

Ref rope_reference(const Setting& s, const Ref& x, const Ref& positions) {
  const Ref frequencies = frequencies_of(s);
  Ref y = x;
  const int64_t size = x.dim(3), rotated = s.rotary_size ? s.rotary_size : size;
  for (int64_t flat = 0; flat < x.numel(); ++flat) {
    const auto at = unravel(flat, x.shape);
    if (at[3] >= rotated || (s.heads && at[2] >= s.heads)) continue;
    const bool halves = s.kind == RopeKind::kHalf;
    const int64_t pair = halves ? at[3] % (rotated / 2) : at[3] / 2;
    const bool second = halves ? at[3] >= rotated / 2 : at[3] % 2 == 1;
    const int64_t partner = flat + (second ? -1 : 1) * (halves ? rotated / 2 : 1);
    const double position = positions.rank() == 1 ? positions[at[1]] : positions[at[0] * x.dim(1) + at[1]];
    const int64_t given = frequencies.rank() == 2 ? at[0] * (rotated / 2) + pair : pair;
    const long double frequency = s.frequencies.empty()
                                      ? std::pow(static_cast<long double>(s.theta), -2.0L * pair / rotated)
                                      : static_cast<long double>(frequencies[given]);
    const long double angle = static_cast<long double>(position) * frequency;
    y[flat] =
        static_cast<double>(x[flat] * std::cos(angle) + (second ? 1 : -1) * x[partner] * std::sin(angle));
  }
  return y;
}

void check_rope(const std::string& name, const Setting& s) {
  OpCase one{.name = "rope_" + name,
             .inputs = {real(s.shape),
                        s.at.empty() ? integers(s.positions, 0, 50) : integer_data(s.positions, s.at)},
             .build =
                 [=](const Inputs& x) {
                   const Value frequencies = s.frequencies.empty() ? Value{} : x[2];
                   return Outputs{rope(x[0], x[1], s.theta, s.kind, s.rotary_size, s.heads, frequencies)};
                 },
             .reference = [=](const Refs& x) { return Refs{rope_reference(s, x[0], x[1])}; },
             // Frequencies in double have a relative error of 1e-16 times the position.
             .tolerance_f64 = s.at.empty() ? 1e-11 : 1e-9};
  if (!s.frequencies.empty())
    one.inputs.push_back(integer_data(s.frequencies, frequencies_of(s).data, DType::f64));
  check(one);
}

TEST(Rope, Half) {
  check_rope("half", {.shape = {2, 3, 2, 8}, .positions = {3}});
  check_rope("half_rows", {.shape = {2, 3, 2, 8}, .positions = {2, 3}});
  check_rope("half_long", {.shape = {1, 2, 1, 70}, .positions = {2}});
  check_rope("half_theta", {.shape = {1, 4, 1, 16}, .positions = {4}, .theta = 1e6});
}

TEST(Rope, Interleaved) {
  check_rope("interleaved", {.shape = {2, 3, 2, 8}, .positions = {3}, .kind = RopeKind::kInterleaved});
  check_rope("interleaved_rows",
             {.shape = {2, 2, 1, 66}, .positions = {2, 2}, .kind = RopeKind::kInterleaved});
}

TEST(Rope, Partial) {
  check_rope("partial", {.shape = {2, 3, 2, 10}, .positions = {3}, .rotary_size = 4});
  check_rope("partial_interleaved",
             {.shape = {2, 3, 2, 10}, .positions = {3}, .kind = RopeKind::kInterleaved, .rotary_size = 6});
}

TEST(Rope, FirstHeads) {
  check_rope("first_heads", {.shape = {2, 3, 5, 8}, .positions = {3}, .heads = 3});
  check_rope("first_heads_packs", {.shape = {1, 2, 3, 32}, .positions = {1, 2}, .heads = 1});
  check_rope("first_heads_partial", {.shape = {2, 3, 4, 10}, .positions = {3}, .rotary_size = 4, .heads = 2});
}

TEST(Rope, GivenFrequencies) {
  check_rope("given", {.shape = {2, 3, 2, 8}, .positions = {3}, .frequencies = {4}});
  check_rope("given_rows", {.shape = {2, 3, 2, 8}, .positions = {2, 3}, .frequencies = {4}});
  check_rope("given_of_rows", {.shape = {3, 4, 2, 16}, .positions = {3, 4}, .frequencies = {3, 8}});
  check_rope("given_of_rows_shared", {.shape = {3, 4, 2, 16}, .positions = {4}, .frequencies = {3, 8}});
  check_rope("given_partial",
             {.shape = {2, 3, 2, 10}, .positions = {3}, .rotary_size = 4, .frequencies = {2}});
  check_rope("given_interleaved",
             {.shape = {2, 2, 1, 66}, .positions = {2}, .kind = RopeKind::kInterleaved, .frequencies = {33}});
  check_rope("given_many", {.shape = {1, 2, 1, 600}, .positions = {2}, .frequencies = {300}});
  check_rope("given_first_heads", {.shape = {2, 3, 5, 8}, .positions = {3}, .heads = 3, .frequencies = {4}});
}

TEST(Rope, FarPositions) {
  check_rope("far", {.shape = {1, 4, 1, 32}, .positions = {4}, .at = {0, 1000003, 999999, 131071}});
  check_rope("negative", {.shape = {1, 3, 1, 16}, .positions = {3}, .at = {-1, -7, -1000}});
}

// Results larger than the caches are written around them. A slice of the result must equal the result of the slice.
TEST(Rope, Large) {
  std::vector<float> values(64 * 64 * 32 * 64);
  std::vector<int64_t> positions(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1013) / 1013;
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int64_t>(3 * i);
  const auto results = run_graph({{"x", Tensor::of<float>({64, 64, 32, 64}, values)},
                                  {"positions", Tensor::of<int64_t>({64}, positions)}},
                                 [](const Inputs& x) {
                                   return std::vector<std::pair<std::string, Value>>{
                                       {"all", rope(x[0], x[1])}, {"part", rope(slice(x[0], 0, 5, 6), x[1])}};
                                 });
  const auto all = results.at("all").as<float>(), part = results.at("part").as<float>();
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 5 * static_cast<int64_t>(part.size())));
}

TEST(Rope, EmptySizes) {
  check_rope("no_time", {.shape = {2, 0, 2, 8}, .positions = {0}});
  check_rope("no_batch", {.shape = {0, 3, 2, 8}, .positions = {3}});
  check_rope("no_heads", {.shape = {2, 3, 0, 8}, .positions = {3}});
}

TEST(Rope, Errors) {
  const auto build = [](TensorType x, TensorType positions, int64_t rotary_size = 0, int64_t heads = 0) {
    return [=] {
      infer_case({x, positions}, [=](const Inputs& v) {
        return Outputs{rope(v[0], v[1], 10000, RopeKind::kHalf, rotary_size, heads)};
      });
    };
  };
  const TensorType x{DType::f32, {2, 3, 4, 8}}, positions{DType::i64, {3}};
  expect_error(build({DType::f32, {3, 4, 8}}, positions), {"[batch, time, heads, head_size]", "f32[3,4,8]"});
  expect_error(build(x, {DType::i64, {4}}), {"i64[3]", "i64[2,3]", "i64[4]"});
  expect_error(build(x, {DType::f32, {3}}), {"f32[3]"});
  expect_error(build(x, positions, 5), {"even", "5"});
  expect_error(build(x, positions, 0, 5), {"heads must be at most the 4", "5"});
  expect_error(build(x, positions, 10), {"at most the head size 8", "10"});
  const auto given = [&](TensorType frequencies) {
    return [=] {
      infer_case({x, positions, frequencies}, [](const Inputs& v) {
        return Outputs{rope(v[0], v[1], 10000, RopeKind::kHalf, 0, 0, v[2])};
      });
    };
  };
  expect_error(given({DType::f32, {4}}), {"f64[4]", "f64[2,4]", "f32[4]"});
  expect_error(given({DType::f64, {8}}), {"f64[4]", "f64[8]"});
  expect_error(given({DType::f64, {3, 4}}), {"f64[2,4]", "f64[3,4]"});
}

}  // namespace
}  // namespace genesis::testing
