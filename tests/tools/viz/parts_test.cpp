// Tests functions of genesis-viz: round ticks, the smoothed line, escapes.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tools/viz/pictures/escape.h"
#include "tools/viz/pictures/smooth.h"
#include "tools/viz/pictures/ticks.h"

namespace genesis::viz {
namespace {

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> out;
  for (const Tick& tick : ticks) out.push_back(tick.label);
  return out;
}

using Labels = std::vector<std::string>;

Labels decimal_labels(double low, double high, bool whole = false) {
  return labels(decimal_ticks(low, high, decimal_step(low, high, whole)));
}

TEST(Ticks, AreRoundNumbers) {
  EXPECT_EQ(decimal_labels(1.37, 5.59), (Labels{"2", "3", "4", "5"}));
  EXPECT_EQ(decimal_labels(0, 0.5), (Labels{"0.0", "0.1", "0.2", "0.3", "0.4", "0.5"}));
  EXPECT_EQ(decimal_labels(-1, 0.4), (Labels{"-1.00", "-0.75", "-0.50", "-0.25", "0.00", "0.25"}));
  EXPECT_EQ(decimal_labels(1, 754, true), (Labels{"200", "400", "600"}));
  EXPECT_EQ(decimal_labels(1, 4, true), (Labels{"1", "2", "3", "4"}));
  EXPECT_EQ(decimal_labels(0, 13, true), (Labels{"0", "5", "10"}));
}

TEST(Ticks, OfBytesAreRoundInBinaryUnits) {
  const double mib = 1 << 20;
  EXPECT_EQ(labels(byte_ticks(1100 * mib)), (Labels{"0 B", "256 MiB", "512 MiB", "768 MiB", "1 GiB"}));
  EXPECT_EQ(labels(byte_ticks(5 * mib)), (Labels{"0 B", "1 MiB", "2 MiB", "3 MiB", "4 MiB", "5 MiB"}));
  EXPECT_EQ(labels(byte_ticks(3)), (Labels{"0 B", "1 B", "2 B", "3 B"}));
  EXPECT_EQ(labels(byte_ticks(0)), (Labels{"0 B"}));
}

TEST(Ticks, SurviveEveryRange) {
  for (const double high : {0.0, 1e-300, 1e300, double(INFINITY)})
    for (const double low : {0.0, -1e300, -double(INFINITY), 1e300})
      EXPECT_LE(decimal_labels(low, high).size(), 20u) << low << " " << high;
}

// Returns a loss that falls fast, with deterministic noise of about 0.1.
std::vector<double> falling_loss(size_t steps) {
  std::vector<double> loss;
  for (size_t i = 0; i < steps; ++i) {
    const auto x = static_cast<double>(i);
    loss.push_back(1.5 + 4 * std::exp(-x / 40) + 0.1 * std::sin(17 * x) + 0.05 * std::sin(5.3 * x));
  }
  return loss;
}

// An average of earlier steps would stay above a falling curve: by 0.9 here, in steps 20 to 40.
TEST(Smooth, FollowsALossThatFalls) {
  const std::vector<double> loss = falling_loss(1000), smoothed = smooth(loss);
  ASSERT_EQ(smoothed.size(), loss.size());
  for (size_t begin = 0; begin + 20 <= loss.size(); begin += 20) {
    double above = 0;
    for (size_t i = begin; i < begin + 20; ++i) above += (smoothed[i] - loss[i]) / 20;
    EXPECT_NEAR(above, 0, 0.06) << "steps from " << begin;
  }
}

TEST(Smooth, TakesNoiseAway) {
  const std::vector<double> smoothed = smooth(falling_loss(1000));
  for (size_t i = 500; i < smoothed.size(); ++i) EXPECT_NEAR(smoothed[i], 1.5, 0.05) << i;
}

TEST(Smooth, KeepsLinesAndShortCurvesAsTheyAre) {
  std::vector<double> line(300);
  for (size_t i = 0; i < line.size(); ++i) line[i] = 7 - 0.01 * static_cast<double>(i);
  const std::vector<double> smoothed = smooth(line);
  for (size_t i = 0; i < line.size(); ++i) EXPECT_NEAR(smoothed[i], line[i], 1e-9);
  EXPECT_EQ(smooth({}), std::vector<double>());
  EXPECT_EQ(smooth({3}), std::vector<double>{3});
}

TEST(Escape, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(printable("layers.0.q_proj"), "layers.0.q_proj");
  EXPECT_EQ(printable("größe 大小"), "größe 大小");
  EXPECT_EQ(printable("a\nb\x1b[0m"), "a\\u{a}b\\u{1b}[0m");
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\u{202e}");        // reverses the direction of text
  EXPECT_EQ(printable("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");  // not UTF-8, an overlong '/'
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
  EXPECT_EQ(printable("\xef\xbf\xbe\xe2\x82"), "\\u{fffe}\\xe2\\x82");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\u{0}");
}

TEST(Escape, KeepsTextWithinXml) {
  EXPECT_EQ(xml_text("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(xml_text("]]>&lt;"), "]]&gt;&amp;lt;");
}

TEST(Escape, KeepsTextWithinDot) {
  EXPECT_EQ(dot_string("a"), "\"a\"");
  EXPECT_EQ(dot_string("\\"), R"("\\")");
  EXPECT_EQ(dot_string("a\\\", URL=\"javascript:x"), R"("a\\\", URL=\"javascript:x")");
  EXPECT_EQ(dot_string("\\N &amp;"), R"("\\N &amp;amp;")");
  EXPECT_EQ(dot_lines({"a", "b\nc"}), R"("a\nb\\u{a}c")");
}

}  // namespace
}  // namespace genesis::viz
