// Tests the harness on a matrix product, and that it can fail: it finds a wrong reference.
#include <gtest/gtest-spi.h>

#include "schema/ops/nn/matmul.h"
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
