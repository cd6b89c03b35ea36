// Tests generated reductions without a GPU: every accumulator compiles for rows, columns and middle axes, and the
// plan covers every element once.
#include "backends/cuda/codegen/reduce_source.h"

#include <gtest/gtest.h>

#include "backends/cuda/codegen/nvrtc.h"
#include "backends/cuda/codegen/scan_source.h"
#include "backends/cuda/runtime/libraries.h"

namespace genesis::cuda {
namespace {

struct ReduceShape {
  std::vector<int64_t> sizes;
  std::vector<int> axes;
};

ReducePlan plan_for(const ReduceShape& shape, DType dtype = DType::f32) {
  return plan_reduce({dtype, Shape::of(shape.sizes)}, shape.axes);
}

const ReduceShape kRows{{4096, 1024}, {1}}, kOneRow{{1 << 24}, {0}}, kColumns{{8192, 4096}, {0}},
    kMiddle{{8, 64, 30, 30}, {0, 2, 3}}, kComb{{6, 5, 4, 7}, {0, 2}}, kOdd{{33, 7}, {1}};

TEST(ReducePlan, EveryElementIsReducedOnce) {
  const ReduceShape shapes[] = {kRows,         kOneRow,       kColumns,           kMiddle,
                                kComb,         kOdd,          {{}, {}},           {{5, 0}, {1}},
                                {{0, 5}, {0}}, {{5, 1}, {1}}, {{100000, 3}, {0}}, {{3, 100000}, {0}},
                                {{70000}, {0}}};
  for (const ReduceShape& shape : shapes)
    for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::f64}) {
      const ReducePlan p = plan_for(shape, dtype);
      SCOPED_TRACE(Shape::of(shape.sizes).to_string() + " " + std::string(name_of(dtype)));
      int64_t reduced = 1, all = 1;
      for (size_t i = 0; i < shape.sizes.size(); ++i) all *= shape.sizes[i];
      for (int axis : shape.axes) reduced *= shape.sizes[static_cast<size_t>(axis)];
      EXPECT_EQ(p.count, reduced);
      EXPECT_EQ(p.count * p.results(), all);
      EXPECT_GE(p.piece * p.pieces, p.count);
      EXPECT_TRUE(p.pieces == 1 || p.piece * (p.pieces - 1) < p.count);
      EXPECT_EQ(p.piece % (p.inner > 1 ? 1 : p.pack), 0);
      EXPECT_EQ(p.lanes & (p.lanes - 1), 0);
      EXPECT_EQ(p.threads % p.lanes, 0);
      if (p.inner == 1 && (p.pieces > 1 || p.lanes > 32)) {
        EXPECT_EQ(p.threads, p.lanes);
      }
      EXPECT_EQ((p.inner > 1 ? p.inner : p.count) % p.pack, 0);
    }
}

TEST(ReducePlan, LongReductionsAreCutAndShortOnesAreNot) {
  EXPECT_EQ(plan_for(kRows).pieces, 1);
  EXPECT_GT(plan_for(kOneRow).pieces, 264);
  EXPECT_EQ(plan_for(kColumns).blocks(plan_for(kColumns).pack), 256)
      << "two to a multiprocessor, all at once";
  EXPECT_EQ(plan_for(kOdd).pieces, 1);
  EXPECT_EQ(plan_for(kOdd).scratch_bytes(), 0);
}

TEST(ReducePlan, AxesInBetweenBecomeColumnsWhereTheLastIsKept) {
  EXPECT_EQ(plan_for(kMiddle).inner, 1);
  EXPECT_EQ(plan_for(kMiddle).outer, 64);
  EXPECT_EQ(plan_for(kComb).inner, 7);
  EXPECT_EQ(plan_for(kComb).outer, 5);
}

TEST(ReduceSource, EveryAccumulatorCompiles) {
  if (!nvrtc().available()) GTEST_SKIP() << "NVRTC is not installed: generated kernels are not compiled";
  const std::vector<Reduction> reductions{{"SumSoFar<float>", DType::bf16, DType::bf16},
                                          {"SumSoFar<Integer>", DType::boolean, DType::i64},
                                          {"MeanSoFar<double>", DType::f64, DType::f64},
                                          {"ProductSoFar<Integer>", DType::i8, DType::i64},
                                          {"ExtremeSoFar<Max<float>, float>", DType::f16, DType::f16},
                                          {"ExtremeSoFar<Min<bool>, bool>", DType::boolean, DType::boolean},
                                          {"AnySoFar", DType::f32, DType::boolean},
                                          {"AllSoFar", DType::u8, DType::boolean},
                                          {"PlaceSoFar<true, float>", DType::bf16, DType::i64},
                                          {"PlaceSoFar<false, Integer>", DType::i8, DType::i64},
                                          {"PlaceSoFar<true, double>", DType::f64, DType::i64},
                                          {"MomentsSoFar<true, float>", DType::bf16, DType::bf16, 7},
                                          {"MomentsSoFar<false, double>", DType::f64, DType::f64, 7},
                                          {"LogSumExpSoFar<float>", DType::f32, DType::f32},
                                          {"LogSumExpSoFar<double>", DType::f64, DType::f64}};
  for (const Reduction& reduction : reductions) {
    SCOPED_TRACE(reduction.accumulator);
    for (const ReduceShape& shape : {kOneRow, kColumns})
      EXPECT_NO_THROW(compile(reduce_source(reduction, plan_for(shape, reduction.in)), 9, 0));
  }
  for (const ReduceShape& shape : {kRows, kMiddle, kComb, kOdd})
    EXPECT_NO_THROW(compile(reduce_source(reductions[0], plan_for(shape, DType::bf16)), 9, 0));
}

TEST(ScanPlan, LongRowsAreCut) {
  const auto plan = [](std::vector<int64_t> sizes, int64_t axis) {
    return plan_scan({DType::f32, Shape::of(sizes)}, axis);
  };
  EXPECT_EQ(plan({}, 0).blocks(), 1);
  EXPECT_EQ(plan({4, 0}, 1).blocks(), 0);
  EXPECT_EQ(plan({100, 1000}, 1).pieces, 1);
  EXPECT_EQ(plan({300, 70000}, 0).blocks(), (70000 + 255) / 256);
  const ScanPlan cut = plan({2, 1 << 24}, 1);
  EXPECT_GT(cut.pieces, 100);
  EXPECT_GE(cut.piece * cut.pieces, 1 << 24);
  EXPECT_LT(cut.piece * (cut.pieces - 1), 1 << 24);
  EXPECT_EQ(cut.blocks(), 2 * cut.pieces);
}

TEST(ScanSource, RowsPiecesAndColumnsCompile) {
  if (!nvrtc().available()) GTEST_SKIP() << "NVRTC is not installed: generated kernels are not compiled";
  for (const DType dtype : {DType::bf16, DType::f64, DType::i8, DType::boolean})
    for (const auto& [sizes, axis] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{
             {{100, 90}, 1}, {{2, 1 << 20}, 1}, {{100, 90}, 0}}) {
      const TensorType x{dtype, Shape::of(sizes)};
      const DType out = is_float(dtype) ? dtype : DType::i64;
      EXPECT_NO_THROW(compile(scan_source(plan_scan(x, axis), dtype, out, true), 9, 0));
    }
}

}  // namespace
}  // namespace genesis::cuda
