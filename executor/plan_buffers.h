// All places of memory that a plan speaks of. Used by Session to give them memory, and to count it before.
#pragma once

#include "schema/graph/plan.h"

namespace genesis {

// visit(BufferRef) for each, some more than once.
template <class Visit>
void for_each_buffer(const Plan& plan, const Visit& visit) {
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.inputs) visit(ref);
    for (const BufferRef& ref : step.outputs) visit(ref);
  }
  for (const PlanPort& port : plan.outputs) visit(port.buffer);
  for (int32_t state : plan.written_states) visit(BufferRef{Space::kState, state});
}

}  // namespace genesis
