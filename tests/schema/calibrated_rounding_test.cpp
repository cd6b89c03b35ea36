// Tests rounding for given inputs: the factor of their Gram matrix, and what rounding with it gains over the nearest values.
#include "schema/encoding/calibrated_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "schema/encoding/quantized_formats.h"

namespace genesis {
namespace {

constexpr int64_t kWidth = 96, kOut = 24, kRows = 400;

// Rows of x whose elements depend on each other, with inputs of very different power.
std::vector<float> correlated_rows() {
  std::minstd_rand random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(kRows * kWidth);
  for (int64_t row = 0; row < kRows; ++row) {
    float common = 0;
    for (int64_t i = 0; i < kWidth; ++i) {
      common = 0.9f * common + 0.4f * normal(random);
      x[static_cast<size_t>(row * kWidth + i)] =
          (common + 0.3f * normal(random)) * static_cast<float>(1 + i % 7);
    }
  }
  return x;
}

std::vector<float> gram_of(const std::vector<float>& x) {
  std::vector<float> gram(kWidth * kWidth);
  for (size_t row = 0; row < x.size(); row += kWidth)
    for (size_t i = 0; i < kWidth; ++i)
      for (size_t j = 0; j < kWidth; ++j) gram[i * kWidth + j] += x[row + i] * x[row + j];
  return gram;
}

Tensor weights(int64_t out = kOut) {
  std::minstd_rand random(11);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> values(static_cast<size_t>(out * kWidth));
  for (float& value : values) value = normal(random);
  return Tensor::of<float>({out, kWidth}, values);
}

const StateFormat& q4m() { return quantized_format(WeightFormat::kQ4m, DType::f32); }

// Returns the sum of squared differences of x w^T.
double product_error(const std::vector<float>& x, const Tensor& w, const Tensor& rounded) {
  double sum = 0;
  for (size_t row = 0; row < x.size(); row += kWidth)
    for (size_t out = 0; out < kOut; ++out) {
      double difference = 0;
      for (size_t i = 0; i < kWidth; ++i)
        difference += static_cast<double>(x[row + i]) *
                      (w.as<float>()[out * kWidth + i] - rounded.as<float>()[out * kWidth + i]);
      sum += difference * difference;
    }
  return sum;
}

TEST(CalibratedRounding, TheFactorIsOfTheInverse) {
  const std::vector<float> gram = gram_of(correlated_rows());
  const InputFactor factor(gram, kWidth);
  double power = 0;
  for (size_t i = 0; i < kWidth; ++i) power += gram[i * kWidth + i];
  const auto original = [&](int64_t i) {
    return static_cast<size_t>(factor.blocks()[static_cast<size_t>(i / 32)] * 32 + i % 32);
  };
  for (int64_t i = 0; i < kWidth; ++i)
    for (int64_t j = 0; j < kWidth; ++j) {  // U (G + damping) U^T is the identity
      double sum = 0;
      for (int64_t a = 0; a < kWidth; ++a)
        for (int64_t b = 0; b < kWidth; ++b) {
          const double g = gram[original(a) * kWidth + original(b)] + (a == b ? 0.01 * power / kWidth : 0);
          sum += static_cast<double>(factor.row(i)[a]) * g * static_cast<double>(factor.row(j)[b]);
        }
      EXPECT_NEAR(sum, i == j ? 1 : 0, 2e-4) << i << " " << j;
    }
  for (int64_t i = 0; i < kWidth; ++i)
    for (int64_t j = 0; j < i; ++j) EXPECT_EQ(factor.row(i)[j], 0);
}

TEST(CalibratedRounding, ChangesProductsLessThanTheNearestValues) {
  const std::vector<float> x = correlated_rows();
  const Tensor w = weights();
  const Tensor nearest = decode_tensor(encode_tensor(q4m(), w), w.type());
  const Tensor calibrated =
      decode_tensor(round_calibrated(q4m(), w, InputFactor(gram_of(x), kWidth)), w.type());
  EXPECT_LT(product_error(x, w, calibrated), 0.5 * product_error(x, w, nearest));
}

TEST(CalibratedRounding, RowsDoNotDependOnEachOther) {
  const InputFactor factor(gram_of(correlated_rows()), kWidth);
  const EncodedValues all = round_calibrated(q4m(), weights(), factor);
  for (const int64_t rows : {1, 17}) {
    const EncodedValues some = round_calibrated(q4m(), weights(rows), factor);
    for (size_t part = 0; part < 2; ++part)
      EXPECT_EQ(std::memcmp(all.parts[part].data(), some.parts[part].data(),
                            static_cast<size_t>(some.parts[part].bytes())),
                0);
  }
}

TEST(CalibratedRounding, InputsThatAreAlwaysZeroDoNoHarm) {
  std::vector<float> x = correlated_rows();
  for (size_t i = 0; i < x.size(); ++i)
    if (i % kWidth % 5 == 0 || i % kWidth >= 64) x[i] = 0;
  const Tensor w = weights();
  for (const std::vector<float>& gram : {gram_of(x), std::vector<float>(kWidth * kWidth)}) {
    const Tensor got = decode_tensor(round_calibrated(q4m(), w, InputFactor(gram, kWidth)), w.type());
    for (int64_t i = 0; i < w.numel(); ++i)
      EXPECT_NEAR(got.as<float>()[static_cast<size_t>(i)], w.as<float>()[static_cast<size_t>(i)], 0.1) << i;
  }
}

TEST(CalibratedRounding, ValuesAndInputsThatAreNoNumbersAreRefused) {
  std::vector<float> gram(kWidth * kWidth);
  gram[0] = NAN;
  EXPECT_THROW(InputFactor(gram, kWidth), Error);
  gram[0] = 1;
  std::vector<float> values(kWidth, 1.0f);
  values[3] = INFINITY;
  EXPECT_THROW(round_calibrated(q4m(), Tensor::of<float>({1, kWidth}, values), InputFactor(gram, kWidth)),
               Error);
}

}  // namespace
}  // namespace genesis
