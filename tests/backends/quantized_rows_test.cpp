// Tests all inner loops over quantized weights that this CPU can run against each other. All sums are exact in f32,
// so the loops must agree bit for bit with plain C++, and that with sums in double precision.
#include "backends/cpu/quantized/quantized_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "schema/core/float16.h"
#include "schema/encoding/q4m.h"

namespace genesis::cpu {
namespace {

struct Sizes {
  WeightFormat format;
  int64_t m, k, n, streams;

  int64_t rows() const { return n * streams; }
  int64_t blocks() const { return k / kQuantBlock; }
  int64_t row_bytes() const { return blocks() * quant_block_bytes(format); }
  std::string describe() const {
    return std::string(EnumNames<WeightFormat>::names[static_cast<size_t>(format)]) + " m " +
           std::to_string(m) + " k " + std::to_string(k) + " n " + std::to_string(n) + " streams " +
           std::to_string(streams);
  }
};

struct Operands {
  std::vector<uint8_t> quants;
  std::vector<uint16_t> scales;  // f16, or the words of q4m
  std::vector<float> x;

  // x has a 127 in each block, so that its quants equal its values. The buffers end with the last quant and scale, so
  // that a sanitizer detects reads beyond them.
  explicit Operands(const Sizes& s) {
    std::minstd_rand random(7);
    const auto below = [&](int limit) { return static_cast<int>(random() >> 8) % limit; };
    for (int64_t i = 0; i < s.rows() * s.row_bytes(); ++i)
      quants.push_back(static_cast<uint8_t>(s.format == WeightFormat::kQ8 ? below(255) - 127 : below(256)));
    for (int64_t i = 0; i < s.rows() * s.blocks(); ++i)
      scales.push_back(s.format == WeightFormat::kQ4m
                           ? static_cast<uint16_t>(f16(static_cast<float>(below(2))).bits << 1 | below(128))
                           : f16(std::ldexp(static_cast<float>(below(3) - 1), -8)).bits);
    for (int64_t i = 0; i < s.m * s.k; ++i)
      x.push_back(i % kQuantBlock == 11 ? 127.0f : static_cast<float>(below(255) - 127));
  }
};

struct alignas(64) Line {
  float values[16] = {NAN};
};

std::vector<float> run(const GemvKernel& kernel, const Sizes& s, const Operands& o) {
  const int64_t stride = kernel.packed_row(s.k);
  std::vector<Line> lines(static_cast<size_t>(padded_rows(s.m) * stride / 16));
  float* const packed = lines.data()->values;
  kernel.pack({o.x.data(), s.k, 1, s.m, s.k}, packed);
  std::vector<float> sums(static_cast<size_t>(padded_rows(s.m) * s.rows()), NAN);
  kernel.run({.x = packed,
              .stride_x = stride,
              .m = s.m,
              .weights = o.quants.data(),
              .scales = o.scales.data(),
              .stride_w = s.k,
              .n = s.n,
              .k = s.k,
              .streams = s.streams,
              .apart = s.n,
              .sums = sums.data(),
              .stride_sums = s.rows()});
  sums.resize(static_cast<size_t>(s.m * s.rows()));
  return sums;
}

double weight(const Sizes& s, const Operands& o, int64_t row, int64_t k) {
  const uint8_t* at = o.quants.data() + row * s.row_bytes();
  const uint8_t* block = at + k / kQuantBlock * quant_block_bytes(s.format);
  const auto i = static_cast<int>(k % kQuantBlock);
  f16 scale;
  scale.bits = o.scales[static_cast<size_t>(row * s.blocks() + k / kQuantBlock)];
  if (s.format == WeightFormat::kQ4m)
    return Q4mGrid(scale.bits).value(static_cast<float>(four_bits(block, i)));
  const int quant = s.format == WeightFormat::kQ8 ? static_cast<int8_t>(at[k]) : q4_quant(block, i);
  return quant * static_cast<double>(static_cast<float>(scale));
}

std::vector<float> expected(const Sizes& s, const Operands& o) {
  std::vector<float> sums;
  for (int64_t i = 0; i < s.m; ++i)
    for (int64_t row = 0; row < s.rows(); ++row) {
      double sum = 0;
      for (int64_t k = 0; k < s.k; ++k)
        sum += static_cast<double>(o.x[static_cast<size_t>(i * s.k + k)]) * weight(s, o, row, k);
      sums.push_back(static_cast<float>(sum));
    }
  return sums;
}

class QuantizedRows : public ::testing::TestWithParam<WeightFormat> {};

TEST_P(QuantizedRows, AgreeToTheBit) {
  for (const int64_t k : {32, 64, 96, 128, 160, 480, 512, 544, 896, 1056})
    for (const int64_t m : {1, 2, 3, 5, 8, 13})
      for (const int64_t streams : {1, 5, 6, 7}) {
        const Sizes s{GetParam(), m, k, 3, streams};
        const Operands o(s);
        const std::vector<float> want = expected(s, o);
        const auto kernels = quantized_rows_kernels(DType::f32, s.format);
        for (size_t i = 0; i < kernels.size(); ++i)
          ASSERT_EQ(run(kernels[i], s, o), want)
              << s.describe() << ", kernel " << i << " of " << kernels.size();
      }
}

// A NaN in a block of x reaches every sum of its row and none of another row.
TEST_P(QuantizedRows, NanStaysInItsRow) {
  const Sizes s{GetParam(), 3, 160, 2, 6};
  Operands o(s);
  o.x[160 + 150] = NAN;
  for (const GemvKernel& kernel : quantized_rows_kernels(DType::f32, s.format)) {
    const std::vector<float> sums = run(kernel, s, o);
    for (int64_t i = 0; i < s.m * s.rows(); ++i)
      EXPECT_EQ(std::isnan(sums[static_cast<size_t>(i)]), i / s.rows() == 1) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedRows,
                         ::testing::Values(WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m));

}  // namespace
}  // namespace genesis::cpu
