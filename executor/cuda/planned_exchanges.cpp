#include "executor/cuda/planned_exchanges.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "backends/common/collective_kernels.h"
#include "passes/core/match.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/collective/collective.h"

namespace genesis {
namespace {

// Returns true for ops that all ranks along an axis execute alike.
bool is_planned(const OpDef& op) {
  return passes::is<ops::AllReduce>(op) || passes::is<ops::ReduceScatter>(op) ||
         passes::is<ops::AllGather>(op);
}

// Classifies the work that overlaps with an exchange on its own stream: memory-bound or compute-bound, whichever takes more of
// the time until the next exchange.
WorkBeside work_beside(size_t exchange, const std::vector<StepCall>& calls, const StepStreams& streams,
                       const StreamSpeeds& speeds) {
  if (streams.stream[exchange] != StepStreams::kExchange) return WorkBeside::kNone;
  const Rates rates = {speeds.bytes_per_second, speeds.flops_per_second};
  double memory = 0, compute = 0;  // seconds
  for (size_t i = exchange + 1; i < calls.size() && !calls[i].step->op->info.collective; ++i) {
    const Cost cost = cost_of(*calls[i].step);
    const bool is_memory_bound = memory_time(cost.bytes, rates) > arithmetic_time(cost.flops, rates);
    (is_memory_bound ? memory : compute) += time_of(cost, rates);
  }
  return memory > compute ? WorkBeside::kMemoryBound : WorkBeside::kComputeBound;
}

}  // namespace

void plan_exchanges(Collectives& ranks, const std::vector<StepCall>& calls, const StepStreams& streams,
                    const StreamSpeeds& speeds) {
  std::map<std::string_view, std::vector<PlannedExchange>> by_axis;  // sorted alike on all ranks
  for (size_t i = 0; i < calls.size(); ++i) {
    const Step& step = *calls[i].step;
    if (!is_planned(*step.op)) continue;
    by_axis[axis_of(*step.op, step.attributes)].push_back(
        {exchanges_of(calls[i].inputs, calls[i].outputs), work_beside(i, calls, streams, speeds)});
  }
  for (const auto& [axis, exchanges] : by_axis)
    if (RankGroup* group = ranks.group(axis); group && group->size() > 1) group->plan_exchanges(exchanges);
}

}  // namespace genesis
