// Tests initializers: PyTorch's formulas, checked by the statistics of many numbers. Values depend only on seed and
// name.
#include "builder/init.h"
#include "builder/init_watcher.h"
#include "schema/file/format/hash.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/builder/layer_run.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

struct Statistics {
  double mean = 0, std = 0, low = 1e30, high = -1e30;
};

Statistics statistics(const init::Init& init, const Shape& shape) {
  const Doubles values = init::make(init, {DType::f32, shape}, 11, "layer.weight").to_doubles();
  Statistics s;
  const double n = static_cast<double>(values.size());
  for (double v : values) s.mean += v / n, s.low = std::min(s.low, v), s.high = std::max(s.high, v);
  for (double v : values) s.std += (v - s.mean) * (v - s.mean) / n;
  s.std = std::sqrt(s.std);
  return s;
}

const Shape kWeight = {400, 300};  // fan in 300, fan out 400; 120,000 numbers

// Checks mean and standard deviation to within about four standard errors.
void expect_normal(const init::Init& init, const Shape& shape, double mean, double std) {
  const Statistics s = statistics(init, shape);
  EXPECT_NEAR(s.mean, mean, 0.012 * std);
  EXPECT_NEAR(s.std, std, 0.01 * std);
  EXPECT_GT(s.high, mean + 3.8 * std);  // tails
  EXPECT_LT(s.low, mean - 3.8 * std);
}

void expect_uniform(const init::Init& init, const Shape& shape, double low, double high) {
  const Statistics s = statistics(init, shape);
  const double width = high - low;
  EXPECT_NEAR(s.mean, (low + high) / 2, 0.004 * width);
  EXPECT_NEAR(s.std, width / std::sqrt(12.0), 0.004 * width);
  EXPECT_GE(s.low, low - 1e-6 * width);
  EXPECT_LE(s.high, high + 1e-6 * width);
  EXPECT_NEAR(s.low, low, 1e-3 * width);
  EXPECT_NEAR(s.high, high, 1e-3 * width);
}

TEST(Init, Constants) {
  EXPECT_EQ(init::make(init::constant(0.25), {DType::f32, {2, 2}}, 0, "w").to_doubles(), Doubles(4, 0.25));
  EXPECT_EQ(init::make(init::ones(), {DType::bf16, {3}}, 0, "w").to_doubles(), Doubles(3, 1.0));
  EXPECT_EQ(init::make(init::zeros(), {DType::f64, {}}, 0, "w").to_doubles(), Doubles(1, 0.0));
  EXPECT_EQ(init::make(init::normal(), {DType::f32, {0, 4}}, 0, "w").numel(), 0);
}

TEST(Init, UniformAndNormal) {
  expect_uniform(init::uniform(-0.5, 2), kWeight, -0.5, 2);
  expect_normal(init::normal(3, 0.2), kWeight, 3, 0.2);
  expect_normal(init::normal(), {120000}, 0, 1);
}

// The standard deviation of a normal distribution cut at +-2 is sqrt(1 - 4 phi(2) / (2 Phi(2) - 1)) = 0.8796.
TEST(Init, TruncatedNormal) {
  const Statistics s = statistics(init::trunc_normal(1, 0.5, 0, 2), kWeight);
  EXPECT_NEAR(s.mean, 1, 0.006);
  EXPECT_NEAR(s.std, 0.5 * 0.87963, 0.005);
  EXPECT_GE(s.low, 0);
  EXPECT_LE(s.high, 2);
  // One tail: the mean of a half-normal distribution is sqrt(2 / pi).
  const Statistics half = statistics(init::trunc_normal(0, 1, 0, 8), kWeight);
  EXPECT_NEAR(half.mean, std::sqrt(2 / M_PI), 0.01);
  EXPECT_GE(half.low, 0);
}

TEST(Init, XavierAndKaimingFollowTheFans) {
  expect_uniform(init::xavier_uniform(), kWeight, -std::sqrt(6.0 / 700), std::sqrt(6.0 / 700));
  expect_normal(init::xavier_normal(2), kWeight, 0, 2 * std::sqrt(2.0 / 700));
  expect_uniform(init::kaiming_uniform(), kWeight, -std::sqrt(6.0 / 300), std::sqrt(6.0 / 300));
  expect_uniform(init::kaiming_uniform(std::sqrt(5.0)), kWeight, -std::sqrt(1.0 / 300), std::sqrt(1.0 / 300));
  expect_normal(init::kaiming_normal(), kWeight, 0, std::sqrt(2.0 / 300));
  // [out, in, kernel]: the kernel size is a factor of both fans.
  expect_normal(init::kaiming_normal(1), {200, 100, 6}, 0, std::sqrt(1.0 / 600));
  const init::Fans fans = init::fans_of({20, 10, 3, 3});
  EXPECT_EQ(fans.in, 90);
  EXPECT_EQ(fans.out, 180);
}

TEST(Init, RefusesWhatHasNoFansAndWhatIsNotReal) {
  expect_error(
      [] {
        init::make(init::xavier_uniform(), {DType::f32, {5}}, 0, "b");
      },
      {"rank 2", "[5]", "another initializer"});
  expect_error([] { init::make(init::zeros(), {DType::i64, {5}}, 0, "ids"); }, {"ids", "i64"});
}

TEST(Init, SeedAndNameDecide) {
  const TensorType type{DType::f32, {64}};
  const auto make = [&](uint64_t seed, const char* name) {
    return init::make(init::normal(), type, seed, name).to_doubles();
  };
  EXPECT_EQ(make(1, "a.weight"), make(1, "a.weight"));
  EXPECT_NE(make(1, "a.weight"), make(2, "a.weight"));
  EXPECT_NE(make(1, "a.weight"), make(1, "b.weight"));
}

// A tensor of higher precision starts with the same numbers as one of lower precision, before rounding.
TEST(Init, LowPrecisionRoundsTheSameNumbers) {
  const Doubles exact = init::make(init::normal(), {DType::f32, {64}}, 1, "w").to_doubles();
  const Doubles rounded = init::make(init::normal(), {DType::bf16, {64}}, 1, "w").to_doubles();
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(rounded[i], exact[i], std::abs(exact[i]) / 256);
  EXPECT_EQ(init::make(init::normal(), {DType::f64, {64}}, 1, "w").to_doubles(), exact);
}

// A seed must always give the same bits, on any number of cores. The hashes were recorded when one thread drew all
// numbers. The shape is no multiple of four, nor of the chunk that a thread draws.
TEST(Init, ASeedGivesTheBitsItAlwaysGave) {
  const auto hash = [](const init::Init& how, const TensorType& type) {
    const Tensor x = init::make(how, type, 0x123456789abcdef, "layers.0.weight");
    return file::hash_of({x.data(), static_cast<size_t>(x.bytes())}).to_string();
  };
  const Shape large = {1031, 2053};
  const TensorType f32{DType::f32, large};
  EXPECT_EQ(hash(init::uniform(-0.5, 2), f32), "1201462a736998b877825bd18cbded29");
  EXPECT_EQ(hash(init::normal(0, 0.02), f32), "45152b2fdd7233b18ad62ffe8389446e");
  EXPECT_EQ(hash(init::normal(3, 0.02), {DType::f32, {7}}), "1c9b68c151f10ce1a9ba84a22e67df88");
  EXPECT_EQ(hash(init::trunc_normal(), f32), "07f1836aa6dfbed84618f66f75320263");
  EXPECT_EQ(hash(init::xavier_normal(), f32), "0abb96e439104f5c19ddf262b1757263");
  EXPECT_EQ(hash(init::constant(0.25), f32), "a267ec4f9e31f02192fa29cf8c5f49bb");
  EXPECT_EQ(hash(init::normal(0, 0.02), {DType::bf16, large}), "a2bd615f4fe4f096267ac4e55beb761d");
  EXPECT_EQ(hash(init::normal(0, 0.02), {DType::f16, large}), "7d57fa6bf188a4425fae0f08732ce5e6");
  EXPECT_EQ(hash(init::normal(0, 0.02), {DType::f64, large}), "1115ba39c350f780070e5cbda569054d");
}

TEST(Init, AWatcherHearsOfEveryParameter) {
  std::vector<uint64_t> heard;
  Model model;
  const Scope s(model);
  s.parameter("unheard", {8}, init::normal());
  {
    const init::Watcher watcher([&](std::string_view what, uint64_t done, uint64_t) {
      EXPECT_EQ(what, "drawing initial values");
      heard.push_back(done);
    });
    s.parameter("first", {8}, init::normal());
    s.parameter("second", {2, 3}, init::zeros());
  }
  s.parameter("last", {8}, init::normal());
  EXPECT_EQ(heard, (std::vector<uint64_t>{32, 56}));
}

TEST(Init, TheOrderOfBuildingDoesNotMatter) {
  Model forward, backward;
  const Scope f(forward, 9), b(backward, 9);
  const nn::Linear f0(f / "a", 8, 8), f1(f / "b", 8, 8);
  const nn::Linear b1(b / "b", 8, 8), b0(b / "a", 8, 8);
  for (const char* name : {"a.weight", "a.bias", "b.weight", "b.bias"})
    EXPECT_EQ(state_of(forward, name), state_of(backward, name)) << name;
  std::set<Doubles> different = {state_of(forward, "a.weight"), state_of(forward, "b.weight")};
  EXPECT_EQ(different.size(), 2u);
}

TEST(Init, BuffersOfTwoLayersDiffer) {
  Model model;
  const Scope s(model);
  (s / "a").buffer("noise", {32}, init::normal());
  (s / "b").buffer("noise", {32}, init::normal());
  EXPECT_NE(state_of(model, "a.noise"), state_of(model, "b.noise"));
}

}  // namespace
}  // namespace genesis
