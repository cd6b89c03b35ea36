#include "schema/core/dim.h"

#include <gtest/gtest.h>

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
}

TEST(Dim, EvaluatesAndReportsUnboundSymbolsAndOverflow) {
  EXPECT_EQ((b * s + 1).evaluate({{"batch", 3}, {"seq", 5}}), 16);
  EXPECT_THROW((b * s).evaluate({{"batch", 3}}), Error);
  EXPECT_THROW((b * s).evaluate({{"batch", INT64_MAX}, {"seq", 2}}), Error);
}

}  // namespace
}  // namespace genesis
