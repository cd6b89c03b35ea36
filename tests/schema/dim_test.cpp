#include "schema/core/dim.h"

#include <gtest/gtest.h>

#include <random>

#include "schema/core/error.h"

namespace genesis {
namespace {

const Dim b = Dim::symbol("batch"), s = Dim::symbol("seq");

TEST(Dim, IsCanonical) {
  EXPECT_EQ(b * s + b, b * (s + 1));
  EXPECT_EQ((b + 1) * (b - 1), b * b - 1);
  EXPECT_EQ(b - b, Dim(0));
  EXPECT_TRUE((b - b).is_constant());
}

TEST(Dim, DividesExactlyOrNotAtAll) {
  EXPECT_EQ((b * s * 8).divide_exact(s * 4), b * 2);
  EXPECT_EQ((b * 6 + 4).divide_exact(2), b * 3 + 2);
  EXPECT_EQ((b * 6 + 3).divide_exact(2), std::nullopt);
  EXPECT_EQ(b.divide_exact(s), std::nullopt);
  EXPECT_EQ(Dim(7).divide_exact(0), std::nullopt);
}

TEST(Dim, PrintsWhatItParses) {
  for (const Dim& dim : {Dim(-3), b, b * s * 2 + s + 7, b * b - 1, b * -2})
    EXPECT_EQ(Dim::parse(dim.to_string()), dim) << dim.to_string();
  EXPECT_THROW(Dim::parse(""), Error);
  EXPECT_THROW(Dim::parse("2x"), Error);
  for (const char* wrong : {"floor_div(batch)", "floor_div(batch,seq)", "floor_div(batch,0)", "half(batch,2)",
                            "min(batch,seq", "(batch)", "min(batch,seq)x"})
    EXPECT_THROW(Dim::parse(wrong), Error) << wrong;
  std::string deep = "batch";
  for (int i = 0; i < 5000; ++i) deep = "min(" + deep + ",seq)";
  EXPECT_THROW(Dim::parse(deep), Error);
}

TEST(Dim, ReducesDivisions) {
  EXPECT_EQ(Dim::floor_div(7, 2), Dim(3));
  EXPECT_EQ(Dim::floor_div(-7, 2), Dim(-4));
  EXPECT_EQ(Dim::ceil_div(7, 2), Dim(4));
  EXPECT_EQ(Dim::floor_div(b * 2 + 3, 2), b + 1);
  EXPECT_EQ(Dim::floor_div(b * 2 + 1, 4), Dim::floor_div(b, 2));
  EXPECT_EQ(Dim::floor_div(b - 1, 2) + 1, Dim::floor_div(b + 1, 2));
  EXPECT_EQ(Dim::floor_div(Dim::floor_div(b + 1, 2) + 1, 2), Dim::floor_div(b + 3, 4));
  EXPECT_EQ(Dim::floor_div(b + 1, 2).to_string(), "floor_div(batch+1,2)");
  EXPECT_THROW(Dim::floor_div(b, 0), Error);
}

TEST(Dim, DecidesWhichIsSmallerWhereItCan) {
  EXPECT_EQ(Dim::min(b, b + 1), b);
  EXPECT_EQ(Dim::max(b + s, s), b + s);
  EXPECT_EQ(Dim::max(b, 0), b);
  EXPECT_EQ(Dim::min(b, s), Dim::min(s, b));
  EXPECT_EQ(Dim::min(b, s).to_string(), "min(batch,seq)");
}

// Builds dimensions of random operations, and holds their values and texts against the same operations on integers.
TEST(Dim, FunctionsHaveTheValuesOfTheirOperands) {
  std::mt19937 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const auto divide = [](int64_t a, int64_t d) { return (a - ((a % d) + d) % d) / d; };
  for (int round = 0; round < 2000; ++round) {
    const Bindings sizes{{"batch", below(9)}, {"seq", below(9)}};
    std::vector<std::pair<Dim, int64_t>> made{{b, sizes.at("batch")}, {s, sizes.at("seq")}};
    for (int i = 0; i < 5; ++i) {
      const auto [x, vx] = made[static_cast<size_t>(below(std::ssize(made)))];
      const auto [y, vy] = made[static_cast<size_t>(below(std::ssize(made)))];
      const int64_t n = below(9) - 3, d = 1 + below(5);
      const std::pair<Dim, int64_t> choices[] = {{x + y * n, vx + vy * n},
                                                 {Dim::floor_div(x + n, d), divide(vx + n, d)},
                                                 {Dim::ceil_div(x, d), divide(vx + d - 1, d)},
                                                 {Dim::min(x, y + n), std::min(vx, vy + n)},
                                                 {Dim::max(x + n, y), std::max(vx + n, vy)}};
      made.push_back(choices[below(5)]);
    }
    for (const auto& [dim, value] : made) {
      ASSERT_EQ(dim.evaluate(sizes), value) << dim.to_string();
      ASSERT_EQ(Dim::parse(dim.to_string()), dim) << dim.to_string();
      std::vector<std::string> names;
      dim.collect_symbols(names);
      ASSERT_TRUE(names.empty() == dim.is_constant()) << dim.to_string();
    }
  }
}

TEST(Dim, EvaluatesAndReportsUnboundSymbolsAndOverflow) {
  EXPECT_EQ((b * s + 1).evaluate({{"batch", 3}, {"seq", 5}}), 16);
  EXPECT_THROW((b * s).evaluate({{"batch", 3}}), Error);
  EXPECT_THROW((b * s).evaluate({{"batch", INT64_MAX}, {"seq", 2}}), Error);
}

}  // namespace
}  // namespace genesis
