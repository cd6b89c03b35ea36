// Results of a GPU in bf16 against those of the CPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/inputs.h"

namespace genesis::testing {

// Within bf16's precision of the largest element of each result.
inline void expect_alike(const NamedTensors& got, const NamedTensors& expected) {
  for (const auto& [name, tensor] : expected) {
    const std::vector<double> a = got.at(name).to_doubles(), b = tensor.to_doubles();
    ASSERT_EQ(a.size(), b.size()) << name;
    double largest = 0;
    for (double x : b) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], 0.02 * largest) << name << " " << i;
  }
}

}  // namespace genesis::testing
