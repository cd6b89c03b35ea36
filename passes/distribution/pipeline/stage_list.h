// Lists the nodes of an entry point and the exchanges between its stages, in one order that is the same on all ranks.
#pragma once

#include <map>
#include <vector>

#include "passes/distribution/pipeline/stage_assignment.h"

namespace genesis::passes {

struct Transfer {
  ValueId value;
  int64_t from = 0, to = 0;  // stages
};

struct StageList {
  std::vector<size_t> nodes;  // all nodes of the graph; none before its inputs
  std::map<size_t, std::vector<Transfer>>
      transfers;  // by position: before the node there; nodes.size(): at the end
};

// Uses the order of the 1F1B schedule, or that of the graph if the schedule does not fit.
StageList list_stages(const Graph& graph, const StepPhases& phases, const StageAssignment& assignment,
                      int64_t stages);

}  // namespace genesis::passes
