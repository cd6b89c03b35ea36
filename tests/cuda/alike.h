// Compares results of a GPU in bf16 with those of the CPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/inputs.h"

namespace genesis::testing {

// Checks each result to within bf16's precision of its largest element.
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
