// Visits every buffer that a plan refers to, to count memory or to allocate it.
#pragma once

#include "schema/graph/plan.h"

namespace genesis {

// Calls visit(BufferRef) for every reference; a buffer can be visited more than once.
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
