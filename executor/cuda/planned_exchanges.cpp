#include "executor/cuda/planned_exchanges.h"

#include <map>
#include <string_view>

#include "backends/common/collective_kernels.h"
#include "passes/core/match.h"
#include "schema/ops/collective/collective.h"

namespace genesis {
namespace {

// What all ranks along an axis do alike.
bool is_planned(const OpDef& op) {
  return passes::is<ops::AllReduce>(op) || passes::is<ops::ReduceScatter>(op) ||
         passes::is<ops::AllGather>(op);
}

}  // namespace

void plan_exchanges(Collectives& ranks, const std::vector<StepCall>& calls, const StepStreams& streams) {
  std::map<std::string_view, std::vector<PlannedExchange>> by_axis;  // all ranks take the axes in one order
  for (size_t i = 0; i < calls.size(); ++i) {
    const Step& step = *calls[i].step;
    if (!is_planned(*step.op)) continue;
    by_axis[axis_of(*step.op, step.attributes)].push_back(
        {exchanges_of(calls[i].inputs, calls[i].outputs), streams.stream[i] == StepStreams::kExchange});
  }
  for (const auto& [axis, exchanges] : by_axis)
    if (RankGroup* group = ranks.group(axis); group && group->size() > 1) group->plan_exchanges(exchanges);
}

}  // namespace genesis
