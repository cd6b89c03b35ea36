// What a node must do at least: bytes that have to move and arithmetic of matrix products. For profiles,
// rooflines and the choice of what to compute again.
#pragma once

#include "schema/op.h"

namespace genesis {

struct Cost {
  double bytes = 0;  // read once, written once
  double flops = 0;  // multiply-adds count two; 0 for ops that memory bounds
};

// Sizes must be known.
Cost cost_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs);

}  // namespace genesis
