// Base class of tests on a GPU, which skips them without one. A suite is `using Name = OnGpu;`.
#pragma once

#include <gtest/gtest.h>

#include "tests/op_harness.h"

namespace genesis::testing {

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
  }
};

}  // namespace genesis::testing
