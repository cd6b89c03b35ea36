// What a device can do at most, measured on it, and the time that a step would need at that. Used by profile
// and bench.
#pragma once

#include <algorithm>

#include "executor/cost.h"

namespace genesis {

struct DevicePeaks {
  double f32_gflops = 0;  // matrix products, or multiply-adds in registers
  double low_gflops = 0;  // the same with operands of 16 bits
  double copy_gbps = 0;   // bytes read plus bytes written

  // The larger of what its bytes and its products take.
  double microseconds(const Step& step) const {
    const Cost cost = cost_of(step);
    const bool low = !step.input_types.empty() && is_low_precision(step.input_types[0].dtype);
    return std::max(cost.bytes / copy_gbps, cost.flops / (low ? low_gflops : f32_gflops)) / 1e3;
  }
};

}  // namespace genesis
