// What a step of a plan costs, by its op's definition. Used by the runners and by predictions.
#pragma once

#include "schema/graph/plan.h"

namespace genesis {

inline Cost cost_of(const Step& step) {
  return cost_of(*step.op, step.attributes, step.input_types, step.output_types);
}

}  // namespace genesis
