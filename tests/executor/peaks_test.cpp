// The least time of a step: its bytes at the bandwidth or its products at their rate, whichever is longer.
#include "executor/peaks.h"

#include <gtest/gtest.h>

namespace genesis {
namespace {

Step step(const char* op, std::vector<TensorType> inputs, TensorType output) {
  Step made{.op = find_op(op)};
  made.input_types = std::move(inputs);
  made.output_types = {output};
  return made;
}

constexpr DevicePeaks kPeaks{.f32_gflops = 100, .low_gflops = 1000, .copy_gbps = 10};

TEST(DevicePeaks, BytesOrProductsDecide) {
  const TensorType large{DType::f32, {1000, 1000}};
  EXPECT_DOUBLE_EQ(kPeaks.microseconds(step("neg", {large}, large)), 8e6 / 10 / 1e3);
  EXPECT_DOUBLE_EQ(kPeaks.microseconds(step("matmul", {large, large}, large)), 2e9 / 100 / 1e3);
}

TEST(DevicePeaks, SixteenBitsHaveARateOfTheirOwn) {
  const TensorType low{DType::bf16, {4000, 4000}};
  EXPECT_DOUBLE_EQ(kPeaks.microseconds(step("matmul", {low, low}, low)),
                   2.0 * 4000 * 4000 * 4000 / 1000 / 1e3);
}

}  // namespace
}  // namespace genesis
