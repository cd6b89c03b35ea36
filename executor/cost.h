// The cost of a step of a plan (schema/cost.h).
#pragma once

#include "schema/cost.h"
#include "schema/plan.h"

namespace genesis {

inline Cost cost_of(const Step& step) {
  return cost_of(*step.op, step.attributes, step.input_types, step.output_types);
}

}  // namespace genesis
