// What a step must do at least: bytes that have to move and arithmetic of matrix products. For profiles and
// rooflines.
#pragma once

#include "schema/plan.h"

namespace genesis {

struct Cost {
  double bytes = 0;  // read once, written once
  double flops = 0;  // multiply-adds count two; 0 for ops that memory bounds
};

Cost cost_of(const Step& step);

}  // namespace genesis
