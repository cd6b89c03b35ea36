// Tests conversions between all dtypes against plain C++ conversions.
#include "schema/ops/elementwise/cast.h"

#include <bit>
#include <cmath>
#include <random>

#include "schema/core/halves.h"
#include "schema/ops/tensor/cast_group.h"
#include "schema/ops/tensor/slice.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                          DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};

Tensor converted(const Tensor& x, DType dtype) {
  const NamedTensors results = run_graph({{"x", x}}, [&](const Inputs& in) {
    return std::vector<std::pair<std::string, Value>>{{"y", cast(in[0], dtype)}};
  });
  return results.begin()->second;
}

// The values are small enough for every dtype, with halves and signs. They are first converted to `from`.
TEST(Cast, EveryPairOfDtypes) {
  std::vector<double> values;
  for (int i = 0; i < 75; ++i) values.push_back(0.5 * i - 10);
  for (DType from : kAll)
    for (DType to : kAll) {
      const Tensor source = converted(Tensor::of<double>({75}, values), from);
      const std::vector<double> held = source.to_doubles(), got = converted(source, to).to_doubles();
      for (size_t i = 0; i < held.size(); ++i) {
        double expected = is_float(to) ? held[i] : std::trunc(held[i]);
        if (to == DType::boolean) expected = held[i] != 0;
        if (to == DType::u8 && expected < 0) expected += 256;
        if (to == DType::i8 && expected > 127) expected -= 256;
        EXPECT_EQ(got[i], expected) << name_of(from) << " " << held[i] << " to " << name_of(to);
      }
    }
}

template <class Half>
void check_rounding() {
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, 65504, 65519.9f, 65520, 1e-8f, 6e-8f, 3e38f};
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  const Tensor x = Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
  const Tensor half = converted(x, dtype_of<Half>()), back = converted(half, DType::f32);
  const auto stored = half.as<Half>();
  const auto loaded = back.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const Half expected(values[i]);
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(loaded[i])) << values[i];
    } else {
      EXPECT_EQ(stored[i].bits, expected.bits) << values[i];
      EXPECT_EQ(loaded[i], static_cast<float>(expected)) << values[i];
    }
  }
}

TEST(Cast, RoundsToBf16LikeTheScalarType) { check_rounding<bf16>(); }
TEST(Cast, RoundsToF16LikeTheScalarType) { check_rounding<f16>(); }

TEST(Cast, IntegersKeepTheirLowBits) {
  const Tensor x = Tensor::of<int64_t>({3}, {300, -129, int64_t{1} << 40});
  EXPECT_EQ(converted(x, DType::i8).to_doubles(), (std::vector<double>{44, 127, 0}));
  EXPECT_EQ(converted(x, DType::u8).to_doubles(), (std::vector<double>{44, 127, 0}));
  EXPECT_EQ(converted(x, DType::i32).to_doubles(), (std::vector<double>{300, -129, 0}));
}

TEST(Cast, GradientIsCastBack) {
  check({.name = "cast_gradient",
         .inputs = {real({3, 4})},
         .build = [](const Inputs& x) { return Outputs{cast(x[0], DType::f64)}; },
         .reference = [](const Refs& x) { return x; }});
}

TEST(Cast, ToTheSameDtypeIsTheValueItself) {
  const auto types = infer_case({{DType::f32, {Dim::symbol("n"), 3}}}, [](const Inputs& x) {
    EXPECT_TRUE(cast(x[0], DType::f32).is(x[0]));
    return Outputs{cast(x[0], DType::i8)};
  });
  EXPECT_EQ(types[0].to_string(), "i8[n,3]");
}

// Covers sizes on either side of a chunk of work, a scalar, an empty tensor, and operands with any alignment.
TEST(CastGroup, JoinsAndConverts) {
  check({.name = "cast_group",
         .inputs = {real({3, 5}), real({2, 5}), real({0, 5}), real({}), real({4001})},
         .build =
             [](const Inputs& x) {
               return Outputs{cast_group({{x[0], x[1], x[2]}, {x[3]}, {x[4]}}, x[0].dtype())};
             },
         .reference =
             [](const Refs& x) {
               Ref joined = x[0];
               joined.shape[0] = 5;
               joined.data.insert(joined.data.end(), x[1].data.begin(), x[1].data.end());
               return Refs{joined, x[3], x[4]};
             }});
}

TEST(CastGroup, IsTheCastsOneByOne) {
  std::vector<float> values(70001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 1e3f;
  const Tensor large = Tensor::of<float>({70001}, values),
               small = Tensor::of<float>({3}, {1.00390625f, 65520, 3e-8f});
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    const NamedTensors out = run_graph({{"large", large}, {"small", small}}, [&](const Inputs& x) {
      const std::vector<Value> group = cast_group({{x[1], x[0]}, {x[0]}}, dtype);
      return std::vector<std::pair<std::string, Value>>{
          {"joined", group[0]},
          {"large", group[1]},
          {"expected_joined", cast(concat({x[1], x[0]}, 0), dtype)},
          {"expected_large", cast(x[0], dtype)}};
    });
    EXPECT_EQ(out.at("joined").to_doubles(), out.at("expected_joined").to_doubles());
    EXPECT_EQ(out.at("large").to_doubles(), out.at("expected_large").to_doubles());
  }
}

TEST(CastGroup, RefusesWhatDoesNotFit) {
  const auto types = [](std::vector<TensorType> inputs, DType dtype) {
    return
        [=] { infer_case(inputs, [&](const Inputs& x) { return Outputs{cast_group({x.values}, dtype)}; }); };
  };
  expect_error(types({{DType::f32, {2, 3}}, {DType::f32, {2, 4}}}, DType::bf16),
               {"differ there only", "[2,4]"});
  expect_error(types({{DType::f32, {}}, {DType::f32, {}}}, DType::bf16), {"differ there only"});
  expect_error(types({{DType::i32, {2}}}, DType::bf16), {"takes reals", "i32[2]"});
  expect_error(types({{DType::f32, {2}}}, DType::i8), {"makes reals, not i8"});
}

// Both devices join them in packs and one by one. The functions they share have tests of their own.
TEST(JoinHalves, GivesTheNumberBack) {
  for (const int64_t n : {1, 70001, 70004}) {
    std::vector<float> values;
    std::vector<bf16> upper;
    std::vector<int16_t> lower;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(std::sin(static_cast<float>(i)) * 1e3f);
      const Halves halves = split_halves(std::bit_cast<uint32_t>(values.back()));
      upper.emplace_back().bits = halves.upper;
      lower.push_back(static_cast<int16_t>(halves.lower));
    }
    for (const char* device : {"cpu", "cuda"}) {
      if (device == std::string("cuda") && !why_no_cuda().empty()) continue;
      const NamedTensors out =
          run_graph({{"upper", Tensor::of<bf16>({n}, upper)}, {"lower", Tensor::of<int16_t>({n}, lower)}},
                    [](const Inputs& x) {
                      return std::vector<std::pair<std::string, Value>>{{"y", join_halves(x[0], x[1])}};
                    },
                    {.device = device});
      const auto y = out.at("y").as<float>();
      EXPECT_EQ(std::vector<float>(y.begin(), y.end()), values) << device;
    }
  }
}

TEST(JoinHalves, RefusesWhatDoesNotFit) {
  const auto types = [](TensorType upper, TensorType lower) {
    return [=] {
      infer_case({upper, lower}, [](const Inputs& x) { return Outputs{join_halves(x[0], x[1])}; });
    };
  };
  expect_error(types({DType::f16, {2}}, {DType::i16, {2}}), {"bf16 and i16", "f16[2]"});
  expect_error(types({DType::bf16, {2}}, {DType::i16, {3}}), {"one shape", "i16[3]"});
}

}  // namespace
}  // namespace genesis::testing
