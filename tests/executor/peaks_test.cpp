// Tests the least time of a step: the time of its bytes at the bandwidth of the nearest memory that can hold them, or
// of its products at their rate, whichever is longer.
#include "executor/runtime/peaks.h"

#include <gtest/gtest.h>

#include "executor/runtime/roofline.h"

namespace genesis {
namespace {

constexpr int64_t kMb = 1000000;

// Returns f32[250000, megabytes].
TensorType type_of(int64_t megabytes) { return {DType::f32, {250000, megabytes}}; }

struct Operand {
  Space space = Space::kArena;
  int32_t index = 0;
  int64_t megabytes = 1;
};

Step step(const char* op, const std::vector<Operand>& inputs, const TensorType& output) {
  Step made{.op = find_op(op)};
  for (const Operand& operand : inputs) {
    made.input_types.push_back(type_of(operand.megabytes));
    made.inputs.push_back({.space = operand.space, .index = operand.index, .bytes = operand.megabytes * kMb});
  }
  made.output_types = {output};
  made.outputs = {{.bytes = output.bytes()}};
  return made;
}

DevicePeaks peaks() {
  DevicePeaks peaks;
  peaks.f32_gflops = 100;
  peaks.low_gflops = 1000;
  peaks.copy_gbps = 10;
  peaks.caches = {{3 * kMb, 80}, {30 * kMb, 40}};
  return peaks;
}

double least(const std::vector<Step>& steps, size_t i) {
  Plan plan;
  plan.steps = steps;
  return least_microseconds(plan, peaks())[i];
}

TEST(Roofline, LargeDataComesFromMemoryAndSmallDataFromTheCacheItFits) {
  EXPECT_DOUBLE_EQ(least({step("neg", {{.megabytes = 100}}, type_of(100))}, 0), 200e6 / 10 / 1e3);
  EXPECT_DOUBLE_EQ(least({step("neg", {{.megabytes = 10}}, type_of(10))}, 0), 20e6 / 40 / 1e3);
  EXPECT_DOUBLE_EQ(least({step("neg", {{.megabytes = 1}}, type_of(1))}, 0), 2e6 / 80 / 1e3);
}

// The weight is read once per run, after everything else that the run accesses.
TEST(Roofline, AWeightIsInACacheOnlyWhenAllThatIsTouchedFits) {
  const Step reads_weight = step("neg", {{Space::kState, 0, 1}}, type_of(1));
  EXPECT_DOUBLE_EQ(least({reads_weight}, 0), 2e6 / 80 / 1e3);
  const Step large = step("neg", {{.megabytes = 100}}, type_of(100));
  EXPECT_DOUBLE_EQ(least({reads_weight, large}, 0), 1e6 / 10 / 1e3) << "its result still goes to the cache";
  EXPECT_DOUBLE_EQ(least({large, reads_weight, reads_weight}, 2), 2e6 / 80 / 1e3) << "touched just now";
}

TEST(Roofline, ProductsHaveARateByDtype) {
  Step product = step("matmul", {}, {DType::f32, {4000, 4000}});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    product.input_types = {{dtype, {4000, 4000}}, {dtype, {4000, 4000}}};
    EXPECT_DOUBLE_EQ(least({product}, 0),
                     2.0 * 4000 * 4000 * 4000 / (dtype == DType::f32 ? 100 : 1000) / 1e3);
  }
}

TEST(Roofline, SlicesMoveWhatTheyTakeAndNothingIsSaidOfWhatDependsOnData) {
  EXPECT_DOUBLE_EQ(least({step("slice", {{.megabytes = 100}}, type_of(1))}, 0), 2e6 / 80 / 1e3);
  Step attention = step("attention", {}, type_of(1));
  attention.input_types.assign(4, {DType::f32, {1, 8, 2, 16}});
  attention.attributes.set("has_key_length", true);
  EXPECT_EQ(least({attention}, 0), 0);
}

TEST(Roofline, OfTwoMeasurementsTheLargerCounts) {
  DevicePeaks a = peaks(), b = peaks();
  b.copy_gbps = 20;
  a.caches[1].gbps = 50;
  a.take_larger(b);
  EXPECT_EQ(a.copy_gbps, 20);
  EXPECT_EQ(a.caches[0].gbps, 80);
  EXPECT_EQ(a.caches[1].gbps, 50);
}

}  // namespace
}  // namespace genesis
