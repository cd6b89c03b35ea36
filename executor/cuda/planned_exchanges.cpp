#include "executor/cuda/planned_exchanges.h"

#include <map>
#include <string_view>

#include "backends/common/collective_kernels.h"
#include "schema/ops/collective/collective.h"

namespace genesis {

void plan_exchanges(Collectives& ranks, const std::vector<StepCall>& calls, const StepStreams& streams) {
  std::map<std::string_view, std::vector<PlannedExchange>> by_axis;  // all ranks take the axes in one order
  for (size_t i = 0; i < calls.size(); ++i) {
    const Step& step = *calls[i].step;
    if (!step.op->info.collective) continue;
    PlannedExchange exchange{.tensors = {}, .is_beside = streams.stream[i] == StepStreams::kExchange};
    if (calls[i].inputs.size() == calls[i].outputs.size())
      exchange.tensors = exchanges_of(calls[i].inputs, calls[i].outputs);
    by_axis[axis_of(*step.op, step.attributes)].push_back(std::move(exchange));
  }
  for (const auto& [axis, exchanges] : by_axis)
    if (RankGroup* group = ranks.group(axis); group && group->size() > 1) group->plan_exchanges(exchanges);
}

}  // namespace genesis
