// The cost of a step of a plan, from its op's definition.
#pragma once

#include "schema/graph/plan.h"

namespace genesis {

inline Cost cost_of(const Step& step) {
  return cost_of(*step.op, step.attributes, step.input_types, step.output_types);
}

}  // namespace genesis
