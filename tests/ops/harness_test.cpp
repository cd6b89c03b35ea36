// Tests the harness on a matrix product, and that it can fail: it finds a wrong reference.
#include <gtest/gtest-spi.h>

#include "schema/ops/nn/matmul.h"
#include "tests/kernel_runs.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

OpCase product_case(double factor) {
  return {.name = "harness_product",
          .inputs = {real({2, 3}), real({3, 2})},
          .build = [](const Inputs& x) { return Outputs{matmul(x[0], x[1])}; },
          .reference =
              [factor](const Refs& x) {
                Ref y = ref_zeros({2, 2});
                for (int64_t i = 0; i < 2; ++i)
                  for (int64_t j = 0; j < 2; ++j)
                    for (int64_t k = 0; k < 3; ++k)
                      y[i * 2 + j] += factor * x[0][i * 3 + k] * x[1][k * 2 + j];
                return Refs{y};
              }};
}

TEST(OpHarness, PassesARightReference) { check(product_case(1)); }

TEST(OpHarness, FindsAWrongReference) {
  ::testing::TestPartResultArray failures;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    check(product_case(1.001));
  }
  EXPECT_GT(failures.size(), 0);
}

// A table of a device of which two rows run, one needs other hardware, and one is never asked.
std::vector<std::string> four_kernels() {
  return {"sum.wide", "sum.plain", "max.for_a_chip", "max.forgotten"};
}
KernelChoice choose_sum(const KernelQuery& query) {
  const bool wide = is_allowed(query.disabled, "sum", "wide");
  if (query.op.name() != "sum")
    return {"", {{"max.for_a_chip", "no such chip here"}, {"max.forgotten", "odd"}}, ""};
  if (wide) return {"sum.wide", {}, ""};
  return {"sum.plain", {{"sum.wide", "switched off"}}, ""};
}

Plan plan_of_reductions() {
  Plan plan;
  for (const char* op : {"sum", "max"}) plan.steps.push_back({.op = find_op(op)});
  return plan;
}

TEST(OpHarness, FindsImplementationsThatHaveNotRun) {
  Target target;
  target.kernel_names = four_kernels;
  target.choose = choose_sum;
  KernelRuns runs(target);
  const Plan plan = plan_of_reductions();
  constexpr std::string_view kNoChip[] = {"no such chip"};
  EXPECT_EQ(runs.find(plan, {}), (std::vector<std::string>{"sum.wide"}));
  runs.add({"sum.wide"}, plan);
  const std::vector<KernelRuns::Missing> missing = runs.missing(kNoChip);
  ASSERT_EQ(missing.size(), 3u);
  EXPECT_EQ(missing[0].name + missing[0].reason, "sum.plain");
  EXPECT_EQ(missing[1].name + ": " + missing[1].reason, "max.for_a_chip: no such chip here");
  EXPECT_EQ(missing[2].name + missing[2].reason, "max.forgotten");
  EXPECT_EQ(runs.find(plan, {"kernel:sum.wide"}), (std::vector<std::string>{"sum.plain"}));
  EXPECT_TRUE(runs.can_be_switched_off("sum.wide"));
  EXPECT_FALSE(runs.can_be_switched_off("gemm.reference"));
}

// All other cases of this suite run on the GPU too. This one reports if there is none.
TEST(OpHarness, RunsEveryCaseOnTheGpuToo) {
  if (!why_no_cuda().empty()) GTEST_SKIP() << "the ops are not checked on CUDA: " << why_no_cuda();
  const NamedTensors y =
      run_graph({{"x", Tensor::of<float>({2}, {1, 2})}},
                [](const Inputs& x) {
                  return std::vector<std::pair<std::string, Value>>{{"y", matmul(x[0], x[0])}};
                },
                {.device = "cuda"});
  EXPECT_EQ(y.at("y").to_doubles(), std::vector<double>{5});
}

}  // namespace
}  // namespace genesis::testing
