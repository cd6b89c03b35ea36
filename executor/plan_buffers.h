// Visits every buffer that a plan refers to, to count memory or to allocate it.
#pragma once

#include "schema/graph/plan.h"

namespace genesis {

// Calls visit(BufferRef) for every reference; a buffer can be visited more than once. Of the bodies of loops it visits states and
// constants, which they have in common with the plan: their arenas and inputs are scratch memory of the plan.
template <class Visit>
void for_each_buffer(const Plan& plan, const Visit& visit, bool is_body = false) {
  const auto see = [&](const BufferRef& ref) {
    if (!is_body || ref.space == Space::kState || ref.space == Space::kConstant) visit(ref);
  };
  for (const Step& step : plan.steps) {
    for (const BufferRef& ref : step.inputs) see(ref);
    for (const BufferRef& ref : step.outputs) see(ref);
  }
  for (const PlanPort& port : plan.outputs) see(port.buffer);
  for (int32_t state : plan.written_states) see(BufferRef{Space::kState, state});
  for (const Plan& body : plan.bodies) for_each_buffer(body, visit, true);
}

}  // namespace genesis
